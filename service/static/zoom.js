// Shared zoom and pan of pictures.

const MAX_SCALE = 16;
const STEP = 1.25;

/**
 * Zooms and moves `images`, each of which fills its pane in `area`, together: by wheel, dragging and pinching; calls
 * onZoom(scale) on a change. paneOf(event): the pane under the pointer; zoomsBy(event): whether a turn of the wheel
 * zooms; movesBy(event): whether a press begins to move the pictures.
 */
export class Zoom {
  constructor(area, images, onZoom, { paneOf = (event) => event.target.closest(".pane"), zoomsBy = () => true, movesBy = (event) => !event.button } = {}) {
    Object.assign(this, { area, images, onZoom, paneOf, zoomsBy, movesBy, pane: null, touches: new Map() });
    this.reset();
    area.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    area.addEventListener("pointerdown", (event) => this.down(event));
    area.addEventListener("pointermove", (event) => this.touches.has(event.pointerId) && this.drag(event));
    for (const end of ["pointerup", "pointercancel"]) {
      area.addEventListener(end, (event) => this.touches.delete(event.pointerId));
    }
    area.addEventListener("dblclick", () => this.reset());
  }

  /** Fit the picture into its pane. */
  reset() {
    Object.assign(this, { scale: 1, x: 0, y: 0, least: 1, most: MAX_SCALE });
    this.draw();
  }

  /** Show a pixel of the first picture as one of the screen. */
  actualSize() {
    const picture = this.images.find((image) => image.naturalWidth && image.clientWidth);
    if (!picture) return;
    const fitted = Math.min(picture.clientWidth / picture.naturalWidth, picture.clientHeight / picture.naturalHeight);
    const scale = 1 / (fitted * devicePixelRatio);
    Object.assign(this, { least: Math.min(scale, 1), most: Math.max(scale, MAX_SCALE) });
    this.by(scale / this.scale);
  }

  /** Zoom by a factor around the point (x, y), from -0.5 to 0.5 of a pane. */
  by(factor, x = 0, y = 0) {
    const scale = Math.min(Math.max(this.scale * factor, this.least), this.most);
    const change = scale / this.scale;
    this.x = x - (x - this.x) * change;
    this.y = y - (y - this.y) * change;
    this.scale = scale;
    this.draw();
  }

  larger() {
    this.by(STEP);
  }

  smaller() {
    this.by(1 / STEP);
  }

  /** Move by fractions of a pane. */
  shift(x, y) {
    this.x += x;
    this.y += y;
    this.draw();
  }

  wheel(event) {
    const pane = this.paneOf(event);
    if (!pane || !this.zoomsBy(event)) return;
    event.preventDefault();
    const { left, top, width, height } = pane.getBoundingClientRect();
    const lines = event.deltaMode ? event.deltaY * 16 : event.deltaY;
    this.by(2 ** (-lines / 240), (event.clientX - left) / width - 0.5, (event.clientY - top) / height - 0.5);
  }

  down(event) {
    const pane = this.paneOf(event);
    if (!pane || !this.movesBy(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation(); // what else a press would do, such as selecting a region
    pane.setPointerCapture(event.pointerId);
    this.pane = pane.getBoundingClientRect();
    this.touches.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  drag(event) {
    const before = this.grip();
    this.touches.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const after = this.grip();
    const { left, top, width, height } = this.pane;
    if (before.spread) this.by(after.spread / before.spread, (before.x - left) / width - 0.5, (before.y - top) / height - 0.5);
    this.shift((after.x - before.x) / width, (after.y - before.y) / height);
  }

  /** The midpoint of the pressed pointers and the distance between two of them, 0 for a single one. */
  grip() {
    const [a, b = a] = [...this.touches.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, spread: Math.hypot(a.x - b.x, a.y - b.y) };
  }

  draw() {
    const edge = Math.max(this.scale - 1, 0) / 2; // the picture must cover the pane
    this.x = Math.min(Math.max(this.x, -edge), edge);
    this.y = Math.min(Math.max(this.y, -edge), edge);
    for (const image of this.images) {
      const flipped = image.classList.contains("flipped") ? "scaleX(-1)" : "";
      image.style.transform = `translate(${100 * this.x}%, ${100 * this.y}%) scale(${this.scale}) ${flipped}`;
    }
    this.area.classList.toggle("zoomed", this.scale > 1);
    this.onZoom(this.scale);
  }
}
