// Finds the points near a place, and those within an outline. Without the document.

const CELLS = 256; // of a side

const cellOf = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor(((value + 1) / 2) * CELLS)));

export class PointGrid {
  #starts = new Uint32Array(CELLS * CELLS + 1);
  #points;

  /** Sort points into cells; x and y from -1 to 1. */
  constructor(x, y) {
    Object.assign(this, { x, y });
    const cells = Uint32Array.from(x, (value, point) => cellOf(y[point]) * CELLS + cellOf(value));
    for (const cell of cells) this.#starts[cell + 1] += 1;
    for (let cell = 0; cell < CELLS * CELLS; cell += 1) this.#starts[cell + 1] += this.#starts[cell];
    this.#points = new Uint32Array(x.length);
    const next = this.#starts.slice();
    cells.forEach((cell, point) => {
      this.#points[next[cell]] = point;
      next[cell] += 1;
    });
  }

  /** Call visit(point) for the points of the cells that a box touches. */
  #visit(left, bottom, right, top, visit) {
    for (let row = cellOf(bottom); row <= cellOf(top); row += 1) {
      const first = this.#starts[row * CELLS + cellOf(left)];
      const last = this.#starts[row * CELLS + cellOf(right) + 1];
      for (let at = first; at < last; at += 1) visit(this.#points[at]);
    }
  }

  /** The visible point nearest to a place, at most `radius` away; -1 if there is none. */
  nearest(x, y, radius, isVisible = () => true) {
    let best = -1;
    let least = radius * radius;
    this.#visit(x - radius, y - radius, x + radius, y + radius, (point) => {
      const squared = (this.x[point] - x) ** 2 + (this.y[point] - y) ** 2;
      if (squared <= least && isVisible(point)) {
        least = squared;
        best = point;
      }
    });
    return best;
  }

  /** The visible points within an outline [[x, y], ...], ascending. */
  within(outline, isVisible = () => true) {
    const found = [];
    if (outline.length < 3) return found;
    const xs = outline.map(([x]) => x);
    const ys = outline.map(([, y]) => y);
    this.#visit(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), (point) => {
      if (isVisible(point) && isInside(outline, this.x[point], this.y[point])) found.push(point);
    });
    return found.sort((one, other) => one - other);
  }
}

/** True for a place inside an outline: a ray from it crosses the outline an odd number of times. */
export function isInside(outline, x, y) {
  let inside = false;
  outline.forEach(([x1, y1], at) => {
    const [x2, y2] = outline[(at + 1) % outline.length];
    if (y1 > y !== y2 > y && x < x1 + ((y - y1) / (y2 - y1)) * (x2 - x1)) inside = !inside;
  });
  return inside;
}
