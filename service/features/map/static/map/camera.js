// The part of the map that is in sight: places (-1 to 1, upwards) to pixels (from the top left) and back. The picture of the points
// is larger than that, and moves with the map until it must be drawn again. Without the document.

const EDGE = 24; // pixels around the whole map
const MOST_ZOOM = 400; // of the whole map

/** Show the whole map in a size {width, height}. */
export function fitted({ width, height }) {
  return { x: 0, y: 0, scale: Math.max(1, (Math.min(width, height) - 2 * EDGE) / 2) };
}

/** The pixels of a place. */
export function toPixels(camera, size, x, y) {
  return [size.width / 2 + (x - camera.x) * camera.scale, size.height / 2 - (y - camera.y) * camera.scale];
}

/** The place of a pixel. */
export function toPlace(camera, size, px, py) {
  return [camera.x + (px - size.width / 2) / camera.scale, camera.y - (py - size.height / 2) / camera.scale];
}

/** Move by pixels; the centre stays on the map. */
export function moved(camera, dx, dy) {
  return { ...camera, x: limited(camera.x - dx / camera.scale, -1, 1), y: limited(camera.y + dy / camera.scale, -1, 1) };
}

/** Zoom by a factor so that the place of a pixel stays where it is. */
export function zoomed(camera, size, factor, px = size.width / 2, py = size.height / 2) {
  const whole = fitted(size).scale;
  const scale = limited(camera.scale * factor, whole / 2, whole * MOST_ZOOM);
  const [x, y] = toPlace(camera, size, px, py);
  const next = { ...camera, scale };
  const [nx, ny] = toPlace(next, size, px, py);
  return { scale, x: limited(camera.x + x - nx, -1, 1), y: limited(camera.y + y - ny, -1, 1) };
}

/** The diameter of a point in pixels: larger where fewer are in sight. */
export function pointSize(camera, size, count) {
  const zoom = camera.scale / fitted(size).scale;
  const whole = limited(Math.sqrt((size.width * size.height) / Math.max(count, 1)) / 2.2, 3, 10);
  return limited(whole * zoom ** 0.35, 3, 16);
}

function limited(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

export const MARGIN = 0.25; // on each side, as a share of what is in sight; as in map.css
const MOST = 1.5; // times larger or smaller than drawn

/** The size of the picture for a size in sight. */
export const pictureSize = ({ width, height }) => ({ width: width * (1 + 2 * MARGIN), height: height * (1 + 2 * MARGIN) });

/** The CSS transform that shows a picture drawn for the camera `drawn` as `camera` sees it. */
export function transformOf(drawn, camera) {
  const [right, down] = [(drawn.x - camera.x) * camera.scale, (camera.y - drawn.y) * camera.scale];
  return `translate(${right}px, ${down}px) scale(${camera.scale / drawn.scale})`;
}

/** Whether a picture drawn for the camera `drawn` has all of the map that `camera` sees, at nearly its size. */
export function isKept(drawn, camera, size) {
  const factor = camera.scale / drawn.scale;
  if (factor > MOST || factor < 1 / MOST) return false;
  const whole = pictureSize(size);
  return spans(drawn.x, camera.x, whole.width / drawn.scale, size.width / camera.scale)
    && spans(drawn.y, camera.y, whole.height / drawn.scale, size.height / camera.scale);
}

/** Whether a drawn span has all of the map (-1 to 1) that a seen one has. */
function spans(drawn, seen, drawnLength, seenLength) {
  const [low, high] = [Math.max(-1, seen - seenLength / 2), Math.min(1, seen + seenLength / 2)];
  return drawn - drawnLength / 2 <= low && drawn + drawnLength / 2 >= high;
}
