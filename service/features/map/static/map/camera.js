// The part of the map that is in sight: places (-1 to 1, upwards) to pixels (from the top left) and back. Without the document.

const MARGIN = 24; // pixels around the whole map
const MOST = 400; // zoom of the whole map

/** Show the whole map in a size {width, height}. */
export function fitted({ width, height }) {
  return { x: 0, y: 0, scale: Math.max(1, (Math.min(width, height) - 2 * MARGIN) / 2) };
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
  const scale = limited(camera.scale * factor, whole / 2, whole * MOST);
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
