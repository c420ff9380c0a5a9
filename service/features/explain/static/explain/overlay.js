// Canvases over pictures, which show the same part of them and move with them.

const MOST_PIXELS = 256; // of a side; maps are coarse

/** The canvas over a picture, made when it is needed; a picture fills its parent as far as its sides allow. */
function canvasOver(picture) {
  const present = picture.parentElement.querySelector("canvas.match");
  if (present) return present;
  const canvas = document.createElement("canvas");
  canvas.className = "match";
  canvas.setAttribute("aria-hidden", "true");
  picture.after(canvas);
  const follow = () => (canvas.style.transform = picture.style.transform);
  new MutationObserver(follow).observe(picture, { attributes: true, attributeFilter: ["style"] });
  follow();
  return canvas;
}

/** Paint over a loaded picture by paint(canvas); nothing over one that is missing. */
export function cover(picture, paint) {
  const { naturalWidth: width, naturalHeight: height } = picture;
  if (!width || picture.hidden) return;
  const canvas = canvasOver(picture);
  const scale = MOST_PIXELS / Math.max(width, height);
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  paint(canvas);
  canvas.hidden = false;
}

/** Take away what covers a picture. */
export function uncover(picture) {
  picture?.parentElement?.querySelector("canvas.match")?.remove();
}
