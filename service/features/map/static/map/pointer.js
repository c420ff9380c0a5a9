// Mouse, touch and wheel on the map: moving, zooming, choosing an image, drawing an outline.

const CLICK = 5; // pixels that a click may move

/**
 * Connect a view. mode(): "move", "lasso" or "rectangle"; onHover(point of the canvas or null), onClick(point),
 * onOutline(places).
 */
export function connectPointer(view, { mode, onHover, onClick, onOutline }) {
  const canvas = view.overlay;
  const pressed = new Map(); // where each finger, or the mouse, is
  let start = null;

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const distance = ([x1, y1], [x2, y2]) => Math.hypot(x1 - x2, y1 - y2);
  const middle = ([x1, y1], [x2, y2]) => [(x1 + x2) / 2, (y1 + y2) / 2];

  function pinch(event, point) {
    const before = [...pressed.values()];
    pressed.set(event.pointerId, point);
    const after = [...pressed.values()];
    const [from, to] = [middle(...before), middle(...after)];
    view.pan(to[0] - from[0], to[1] - from[1]);
    view.zoom(distance(...after) / Math.max(distance(...before), 1), ...to);
  }

  function extend(point) {
    if (mode() === "lasso") view.marks.outline = [...(view.marks.outline.length ? view.marks.outline : [start]), point];
    else {
      const [[x1, y1], [x2, y2]] = [start, point];
      view.marks.outline = [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
    }
    view.draw();
  }

  function clear() {
    view.marks.outline = [];
    view.draw();
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button || pressed.size >= 2) return;
    canvas.setPointerCapture(event.pointerId);
    pressed.set(event.pointerId, at(event));
    start = pressed.size === 1 ? at(event) : null;
    clear();
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
      else extend(point);
    }
  });

  function release(event) {
    if (!pressed.delete(event.pointerId) || !start) return;
    const point = at(event);
    const outline = view.marks.outline.map((each) => view.placeOf(...each));
    const clicked = distance(start, point) < CLICK;
    start = null;
    clear();
    if (event.type === "pointercancel") return;
    if (clicked) onClick(point);
    else if (outline.length > 2) onOutline(outline);
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => onHover(null));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...at(event));
  }, { passive: false });
}
