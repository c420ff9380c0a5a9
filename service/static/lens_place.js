// Where a magnifier is, and what it shows. Without the document.

export const FACTOR = 2.5; // by which it enlarges what is shown
export const SIDE = 190; // pixels of the screen
const STEP = 0.04; // of a pane, for an arrow key

const within = (value) => Math.min(Math.max(value, 0), 1);

/** The place [x, y], from 0 to 1 of a pane, that a key moves to; undefined for other keys. */
export function movedPlace(key, [x, y], large = false) {
  const step = large ? 4 * STEP : STEP;
  const [right, down] = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[key] ?? [];
  return right === undefined ? undefined : [within(x + right), within(y + down)];
}

/** The shift in pixels of the enlarged content of a pane so that the place [x, y] is in the middle of the magnifier. */
export function contentShift([x, y], { width, height }, side = SIDE, factor = FACTOR) {
  return [side / 2 - factor * x * width, side / 2 - factor * y * height];
}
