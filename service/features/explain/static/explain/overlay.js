// Canvases over pictures.

const MOST_PIXELS = 256; // of a side; maps are coarse

/** A canvas of the shape of a map of `columns` by `rows`, painted by paint(canvas). */
export function canvasFor(columns, rows, paint) {
  const canvas = document.createElement("canvas");
  const scale = MOST_PIXELS / Math.max(columns, rows);
  canvas.width = Math.max(1, Math.round(columns * scale));
  canvas.height = Math.max(1, Math.round(rows * scale));
  paint(canvas);
  return canvas;
}

/** Put a canvas over a picture that fills its parent as far as its sides allow; nothing over one that is missing. */
export function cover(picture, canvas) {
  const { naturalWidth: width, naturalHeight: height } = picture;
  if (!width) return;
  uncover(picture);
  canvas.className = "match";
  canvas.setAttribute("aria-hidden", "true");
  const place = () => {
    const side = Math.max(width, height);
    Object.assign(canvas.style, { width: `${(100 * width) / side}%`, height: `${(100 * height) / side}%` });
  };
  place();
  picture.after(canvas);
}

/** Take away what covers a picture. */
export function uncover(picture) {
  picture?.parentElement?.querySelector("canvas.match")?.remove();
}
