// Mouse, touch, wheel and keys on the map: moving, zooming, choosing an image, drawing an outline.

const CLICK = 5; // pixels that a click may move
const STEP = 60; // pixels of an arrow key
const ZOOM = 1.4; // of a key
const MOVES = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };

const distance = ([x1, y1], [x2, y2]) => Math.hypot(x1 - x2, y1 - y2);
const middle = ([x1, y1], [x2, y2]) => [(x1 + x2) / 2, (y1 + y2) / 2];

/**
 * Connect a view. mode(): "move", "lasso" or "rectangle"; onHover(point of the canvas or null), onClick(point),
 * onOutline(places), or null for one that was given up; onOpen(): the image in the middle is chosen by a key.
 */
export function connectPointer(view, { mode, onHover, onClick, onOutline, onOpen }) {
  const canvas = view.overlay;
  const pressed = new Map(); // where each finger, or the mouse, is
  let start = null; // of one finger or the mouse
  let outline = [];

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function pinch(event, point) {
    const before = [...pressed.values()];
    pressed.set(event.pointerId, point);
    const after = [...pressed.values()];
    const [from, to] = [middle(...before), middle(...after)];
    view.pan(to[0] - from[0], to[1] - from[1]);
    view.zoom(distance(...after) / Math.max(distance(...before), 1), ...to);
  }

  function extend([x2, y2]) {
    const [x1, y1] = start;
    const corners = mode() === "lasso" ? [[x2, y2]] : [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
    outline = [...(mode() !== "lasso" ? [] : outline.length ? outline : [view.placeOf(x1, y1)]), ...corners.map((each) => view.placeOf(...each))];
    view.marks.outline = outline;
    view.draw();
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button || pressed.size >= 2) return;
    canvas.setPointerCapture(event.pointerId);
    pressed.set(event.pointerId, at(event));
    if (outline.length) onOutline(null); // a second finger
    [start, outline] = [pressed.size === 1 ? at(event) : null, []];
    onHover(null);
  });

  canvas.addEventListener("pointermove", (event) => {
    const point = at(event);
    const before = pressed.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") onHover(point);
    } else if (pressed.size === 2) pinch(event, point);
    else {
      pressed.set(event.pointerId, point);
      if (mode() === "move" || !start) view.pan(point[0] - before[0], point[1] - before[1]);
      else if (outline.length || distance(start, point) >= CLICK) extend(point);
    }
  });

  function release(event) {
    if (!pressed.delete(event.pointerId) || !start) return;
    const [from, drawn] = [start, outline];
    [start, outline] = [null, []];
    if (drawn.length) onOutline(event.type === "pointerup" && drawn.length > 2 ? drawn : null);
    else if (event.type === "pointerup" && distance(from, at(event)) < CLICK) onClick(at(event));
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
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
