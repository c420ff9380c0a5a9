// Mouse, touch, wheel and keys on the map: moving, zooming, choosing an image, drawing an outline.

import { followPointers } from "../viewer/gestures.js";

const CLICK = 5; // pixels that a click may move
const STEP = 60; // pixels of an arrow key
const ZOOM = 1.4; // of a key
const MOVES = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };

/**
 * Connect a view. mode(): "move", "lasso" or "rectangle"; onHover(point of the canvas or null), onClick(point),
 * onOutline(places), or null for one that was given up; onOpen(): the image in the middle is chosen by a key.
 */
export function connectPointer(view, { mode, onHover, onClick, onOutline, onOpen }) {
  const canvas = view.overlay;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const pan = (before, after) => view.pan(after.x - before.x, after.y - before.y);

  const pinch = () => ({
    move(event, before, after) {
      pan(before, after);
      if (before.spread) view.zoom(after.spread / before.spread, ...at({ clientX: after.x, clientY: after.y }));
    },
  });

  function begin(event) {
    if (event.button) return null;
    const [x1, y1] = at(event);
    const isClick = (other) => Math.hypot(other[0] - x1, other[1] - y1) < CLICK;
    let outline = [];
    onHover(null);
    const extend = ([x2, y2]) => {
      const isLasso = mode() === "lasso";
      const corners = isLasso ? [[x2, y2]] : [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
      outline = [...(!isLasso ? [] : outline.length ? outline : [view.placeOf(x1, y1)]), ...corners.map((each) => view.placeOf(...each))];
      view.marks.outline = outline;
      view.draw();
    };
    return {
      move(moved, before, after) {
        if (mode() === "move") pan(before, after);
        else if (outline.length || !isClick(at(moved))) extend(at(moved));
      },
      end(ended) {
        if (outline.length) onOutline(outline.length > 2 ? outline : null);
        else if (isClick(at(ended))) onClick(at(ended));
      },
      cancel: () => outline.length && onOutline(null),
    };
  }

  followPointers(canvas, { begin, pinch });
  canvas.addEventListener("pointermove", (event) => event.buttons || event.pointerType === "touch" || onHover(at(event)));
  canvas.addEventListener("pointerleave", () => onHover(null));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("focus", () => view.onMove());
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in MOVES) view.pan(...MOVES[event.key]);
    else if (event.key === "+" || event.key === "=") view.zoom(ZOOM);
    else if (event.key === "-") view.zoom(1 / ZOOM);
    else if (event.key === "0" || event.key === "Home") view.showAll();
    else if (event.key === "Enter" || event.key === " ") onOpen();
    else return;
    event.preventDefault();
  });
}
