// Where a picture is in its pane: fitted into it, zoomed and moved. Without the document.

export const FITTED = Object.freeze({ scale: 1, x: 0, y: 0 }); // x, y: shifts in parts of the pane
const MAX_SCALE = 32;

/** The nearest value from `least` to `most`. */
export const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

/**
 * The layout {left, top, sx, sy, width, flipped} of a picture of `size` in a pane {width, height}: its edges, and screen pixels
 * for each of its pixels. aspect: the height of a pixel in parts of its width.
 */
export function layoutOf(size, pane, place = FITTED, { flipped = false, aspect = 1 } = {}) {
  const fitted = Math.min(pane.width / size.width, pane.height / (size.height * aspect));
  const [sx, sy] = [fitted * place.scale, fitted * place.scale * aspect];
  const left = pane.width * (0.5 + place.x) - (size.width * sx) / 2;
  const top = pane.height * (0.5 + place.y) - (size.height * sy) / 2;
  return { left, top, sx, sy, width: size.width, flipped };
}

/** The point [x, y] of the pane at a point of the picture. */
export const toPane = ({ left, top, sx, sy, width, flipped }, [x, y]) => [left + (flipped ? width - x : x) * sx, top + y * sy];

/** The point of the picture at a point [x, y] of the pane. */
export function toPicture({ left, top, sx, sy, width, flipped }, [x, y]) {
  const along = (x - left) / sx;
  return [flipped ? width - along : along, (y - top) / sy];
}

/** A place whose picture covers the pane as far as it is larger than it. */
function within({ scale, x, y }) {
  const edge = Math.max(scale - 1, 0) / 2;
  return { scale, x: clamp(x, -edge, edge), y: clamp(y, -edge, edge) };
}

/** The place zoomed by a factor around a point [x, y], from -0.5 to 0.5 of the pane; least: the smallest scale. */
export function zoomed(place, factor, [x, y] = [0, 0], least = 1) {
  const scale = clamp(place.scale * factor, Math.min(least, place.scale, 1), Math.max(MAX_SCALE, least));
  const change = scale / place.scale;
  return within({ scale, x: x - (x - place.x) * change, y: y - (y - place.y) * change });
}

export const moved = (place, right, down) => within({ ...place, x: place.x + right, y: place.y + down });

/** The scale at which a pixel of the picture is one of the screen. */
export const actualScale = (size, pane, ratio, aspect = 1) => 1 / (layoutOf(size, pane, FITTED, { aspect }).sx * ratio);

/** The region of a query in parts of its picture of a size {width, height}, null without one. */
export function regionParts({ region } = {}, { width, height } = {}) {
  return region && width ? { x: region[0] / width, y: region[1] / height, width: region[2] / width, height: region[3] / height } : null;
}
