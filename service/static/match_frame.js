// Frames around the place of a result that is like the region of the query.

import { tr } from "./translate.js";

const SVG = "http://www.w3.org/2000/svg";

/** The rectangle of a match {x, y, width, height}, shares of the sides, in a picture of `width` x `height` pixels. */
export function placeOf(match, width, height) {
  return { x: match.x * width, y: match.y * height, width: match.width * width, height: match.height * height };
}

/** The drawing over a picture, made when it is needed; it moves with the picture. */
function drawingOver(picture) {
  const present = picture.parentElement.querySelector("svg.match-frame");
  if (present) return present;
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "match-frame");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", tr("Frame around the place that is like the region"));
  drawing.append(document.createElementNS(SVG, "rect"));
  picture.after(drawing);
  const follow = () => (drawing.style.transform = picture.style.transform);
  new MutationObserver(follow).observe(picture, { attributes: true, attributeFilter: ["style"] });
  return drawing;
}

/** Frame the place of a match over a picture that fills its parent as far as its sides allow; no match takes it away. */
export function frame(picture, match) {
  if (!match) return picture.parentElement.querySelector("svg.match-frame")?.remove();
  const drawing = drawingOver(picture);
  const draw = () => {
    const { naturalWidth: width, naturalHeight: height } = picture;
    if (!width) return;
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const [name, value] of Object.entries(placeOf(match, width, height))) drawing.firstChild.setAttribute(name, value);
  };
  picture.addEventListener("load", draw, { once: true });
  draw();
}
