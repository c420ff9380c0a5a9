// What the pointer, fingers and the wheel do in a viewer.

import { dragged } from "./levels.js";
import { clamp, toPicture } from "./place.js";
import { pointAt } from "./shapes.js";

const NOTCH = 60; // pixels of the wheel for a slice; a notch of a mouse is 100 or more
const LEAST_DRAG = 4; // pixels of the screen; less is a click
const LEAST_REGION = 8; // pixels of the picture
const SWIPE = 14; // pixels of a finger for a slice

/** Connect the stage of a viewer. */
export function installGestures(viewer) {
  const { stage } = viewer;
  const pointers = new Map(); // {x, y} by id
  let drag = null; // move(event), end(event) of what is dragged
  let turned = 0;

  const placeOf = ({ clientX, clientY }) => {
    const { left, top } = stage.getBoundingClientRect();
    return [clientX - left, clientY - top];
  };
  const pointOf = (event) => {
    const [x, y] = toPicture(viewer.layout, placeOf(event));
    return [clamp(x, 0, viewer.picture.size.width), clamp(y, 0, viewer.picture.size.height)];
  };

  stage.addEventListener("contextmenu", (event) => viewer.picture && event.preventDefault());
  stage.addEventListener("dblclick", () => viewer.tool !== "measure" && viewer.reset());
  stage.addEventListener("pointerdown", (event) => {
    if (!viewer.picture) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    viewer.strip.close();
    if (pointers.size === 2) {
      drag?.cancel?.();
      drag = pinch();
    } else if (pointers.size === 1) drag = begin(event);
    if (drag) stage.setPointerCapture(event.pointerId);
    if (event.button !== 0) event.preventDefault(); // of scrolling by the middle button
    stage.focus({ preventScroll: true });
  });
  stage.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    const before = grip();
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (viewer.picture) drag?.move(event, before, grip());
  });
  for (const name of ["pointerup", "pointercancel"]) {
    stage.addEventListener(name, (event) => {
      if (!pointers.delete(event.pointerId)) return;
      if (name === "pointerup" && viewer.picture) drag?.end?.(event);
      else drag?.cancel?.();
      drag = null;
    });
  }

  /** The middle of the pressed pointers, and the distance between two of them, 0 for a single one. */
  function grip() {
    const [a, b = a] = [...pointers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, spread: Math.hypot(a.x - b.x, a.y - b.y) };
  }

  function begin(event) {
    if (event.button === 2) return window(event);
    if (event.button === 1 || event.shiftKey) return pan();
    const isFinger = event.pointerType !== "mouse";
    if (viewer.tool === "window") return window(event);
    if (viewer.tool === "measure") return measure(event);
    if (viewer.tool === "region") return region(event);
    return isFinger && viewer.scale === 1 && viewer.count > 1 ? swipe() : pan();
  }

  function pan() {
    const move = (event, before, after) => viewer.moveBy((after.x - before.x) / viewer.pane.width, (after.y - before.y) / viewer.pane.height);
    return { move };
  }

  function pinch() {
    const move = (event, before, after) => {
      const { left, top, width, height } = stage.getBoundingClientRect();
      if (before.spread) viewer.zoomBy(after.spread / before.spread, [(before.x - left) / width - 0.5, (before.y - top) / height - 0.5]);
      viewer.moveBy((after.x - before.x) / width, (after.y - before.y) / height);
    };
    return { move };
  }

  function swipe() {
    let rest = 0;
    const move = (event, before, after) => {
      rest += after.y - before.y;
      const steps = Math.trunc(rest / SWIPE);
      rest -= steps * SWIPE;
      if (steps) viewer.goTo(viewer.index + steps, true);
    };
    return { move };
  }

  function window(start) {
    const [begun, { values }] = [viewer.shownWindow, viewer.picture.windowing];
    return { move: ({ clientX, clientY }) => viewer.changeWindow(dragged(begun, clientX - start.clientX, clientY - start.clientY, values)) };
  }

  function measure(start) {
    const grabbed = pointAt(viewer, placeOf(start));
    const point = pointOf(start);
    let shape = grabbed?.shape ?? { kind: viewer.shapeKind, a: point, b: point };
    const name = grabbed?.name ?? "b";
    const before = viewer.shapes;
    const move = (event) => {
      const next = { ...shape, [name]: pointOf(event) };
      viewer.shapes = viewer.shapes.includes(shape) ? viewer.shapes.map((each) => (each === shape ? next : each)) : [...viewer.shapes, next];
      shape = viewer.chosen = next;
    };
    const end = (event) => {
      viewer.chosen = null; // so that arrow keys mean slices again
      if (Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < LEAST_DRAG) {
        viewer.chosen = grabbed?.shape ?? null;
        viewer.shapes = before;
      } else viewer.redraw();
    };
    return { move, end, cancel: () => (viewer.shapes = before) };
  }

  function region(start) {
    const [point, before] = [pointOf(start), viewer.region];
    const { width, height } = viewer.picture.size;
    let sides = null;
    const move = (event) => {
      if (!sides && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < LEAST_DRAG) return;
      const [x, y] = pointOf(event);
      sides = [Math.abs(x - point[0]), Math.abs(y - point[1])];
      viewer.region = { x: Math.min(x, point[0]) / width, y: Math.min(y, point[1]) / height, width: sides[0] / width, height: sides[1] / height };
    };
    const cancel = () => (viewer.region = before);
    const end = () => (sides?.every((side) => side >= LEAST_REGION) ? viewer.selectRegion(viewer.region) : cancel());
    return { move, end, cancel };
  }

  stage.addEventListener("wheel", (event) => {
    if (!viewer.picture) return;
    const lines = event.deltaMode ? event.deltaY * 16 : event.deltaY;
    if (event.ctrlKey || event.metaKey || (viewer.count < 2 && viewer.hasAttribute("wheel-zooms"))) {
      event.preventDefault();
      const [x, y] = placeOf(event);
      return viewer.zoomBy(2 ** (-lines / 240), [x / viewer.pane.width - 0.5, y / viewer.pane.height - 0.5]);
    }
    if (viewer.count < 2) return;
    event.preventDefault();
    turned = Math.sign(turned) === Math.sign(lines) ? turned + lines : lines;
    if (Math.abs(turned) < NOTCH) return;
    turned = 0;
    viewer.goTo(viewer.index + Math.sign(lines), true); // one a notch, however far the notch scrolls
  }, { passive: false });
}
