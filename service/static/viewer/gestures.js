// What the pointer, fingers, the wheel and keys do in a viewer.

import { stepsOf } from "./groups.js";
import { dragged, PRESETS } from "./levels.js";
import { clamp, toPicture } from "./place.js";
import { pointAt, shifted } from "./shapes.js";

const NOTCH = 60; // pixels of the wheel for a slice; a notch of a mouse is 100 or more
const LEAST_DRAG = 4; // pixels of the screen; less is a click
const LEAST_REGION = 8; // pixels of the picture
const SWIPE = 14; // pixels of a finger for a slice

/**
 * Follow the pointers that are pressed on an element. begin(event), and pinch() for two: what is dragged, {move(event, before, after),
 * end(event), cancel()}, or null; before, after: the middle {x, y} of the pointers, and the distance `spread` of two, 0 for one. isOn(): whether to.
 */
export function followPointers(element, { begin, pinch, isOn = () => true }) {
  const pointers = new Map(); // {x, y} by id
  let drag = null;
  const note = ({ pointerId, clientX, clientY }) => pointers.set(pointerId, { x: clientX, y: clientY });
  const grip = () => {
    const [a, b = a] = [...pointers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, spread: Math.hypot(a.x - b.x, a.y - b.y) };
  };
  element.addEventListener("pointerdown", (event) => {
    if (pointers.size === 2 || !isOn()) return;
    note(event);
    drag?.cancel?.();
    drag = pointers.size === 2 ? pinch() : begin(event);
    if (drag) element.setPointerCapture(event.pointerId);
    else pointers.delete(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    const before = grip();
    note(event);
    if (isOn()) drag.move(event, before, grip());
  });
  for (const name of ["pointerup", "pointercancel"]) {
    element.addEventListener(name, (event) => {
      if (!pointers.delete(event.pointerId)) return;
      drag[name === "pointerup" && isOn() ? "end" : "cancel"]?.(event);
      drag = pointers.size ? pinch() : null; // by the other finger
    });
  }
}

export function installGestures(viewer) {
  const { stage } = viewer;
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
  stage.addEventListener("dblclick", () => viewer.tool !== "measure" && viewer.fit());
  followPointers(stage, { begin, pinch, isOn: () => Boolean(viewer.picture) });

  function begin(event) {
    if (getComputedStyle(viewer.strip.node).position === "absolute") viewer.strip.close(); // below the picture it would make that grow under the finger
    if (event.button !== 0) event.preventDefault(); // of scrolling by the middle button
    stage.focus({ preventScroll: true });
    if (event.button === 2) return window(event);
    if (event.button === 1 || event.shiftKey) return pan();
    if (viewer.tool === "window") return window(event);
    if (viewer.tool === "measure") return measure(event);
    if (viewer.tool === "region") return region(event);
    return event.pointerType !== "mouse" && viewer.scale === 1 && viewer.count > 1 ? swipe() : pan();
  }

  const pan = () => ({ move: (event, before, after) => viewer.moveBy((after.x - before.x) / viewer.pane.width, (after.y - before.y) / viewer.pane.height) });

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

const STEP = 0.02; // of the picture, for an arrow key that moves a shape
const PAN = 0.1; // of the pane
const ZOOM = 1.25;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const FIRST_PRESET = 4;

const ACTIONS = {
  "+": (viewer) => viewer.zoomBy(ZOOM),
  "=": (viewer) => viewer.zoomBy(ZOOM),
  "-": (viewer) => viewer.zoomBy(1 / ZOOM),
  0: (viewer) => viewer.reset(),
  1: (viewer) => viewer.actualSize(),
  v: (viewer) => (viewer.inverted = !viewer.inverted),
};
const TOOLS = { d: "window", z: "zoom", m: "measure", c: "region" };

/** Do what a key means; returns whether it means something. */
export function handleKey(viewer, event) {
  const { key: name, shiftKey, ctrlKey, metaKey, altKey } = event;
  if (ctrlKey || metaKey || altKey || (name === "Enter" && event.target.closest("button, a"))) return false;
  const key = name.length > 1 ? name : name.toLowerCase();
  const steps = viewer.count > 1 && !shiftKey && !viewer.chosen ? stepsOf(key, viewer.count) : 0;
  if (steps) viewer.goTo(viewer.index + steps, true);
  return steps !== 0 || (Boolean(viewer.picture) && keyOfPicture(viewer, key, shiftKey));
}

function keyOfPicture(viewer, key, shiftKey) {
  if (viewer.chosen && keyOfShape(viewer, key, shiftKey)) return true;
  if (ARROWS[key] && shiftKey) viewer.moveBy(...ARROWS[key].map((step) => -PAN * step));
  else if (ACTIONS[key]) ACTIONS[key](viewer);
  else if (TOOLS[key] && viewer.tools.includes(TOOLS[key])) viewer.strip.choose(TOOLS[key]);
  else if (viewer.picture.unit === "HU" && PRESETS[key - FIRST_PRESET]) viewer.changeWindow(PRESETS[key - FIRST_PRESET].window);
  else if (key === "Enter" && ["measure", "region"].includes(viewer.tool)) beginShape(viewer);
  else if (key === "Delete" && viewer.shapes.length) viewer.shapes = viewer.shapes.slice(0, -1);
  else return false;
  viewer.redraw();
  return true;
}

function beginShape(viewer) {
  if (viewer.tool === "region") return viewer.beginRegion();
  const { width, height } = viewer.picture.size;
  const shape = { kind: viewer.shapeKind, a: [width * 0.4, height * 0.5], b: [width * 0.6, height * (viewer.shapeKind === "ellipse" ? 0.6 : 0.5)] };
  Object.assign(viewer, { chosen: shape, shapes: [...viewer.shapes, shape] });
}

/** A region as a shape, and back. */
const toShape = ({ x, y, width, height }, size) => ({ a: [x * size.width, y * size.height], b: [(x + width) * size.width, (y + height) * size.height] });
const toRegion = ({ a, b }, size) => ({ x: a[0] / size.width, y: a[1] / size.height, width: Math.max(b[0] - a[0], 1) / size.width, height: Math.max(b[1] - a[1], 1) / size.height });

function keyOfShape(viewer, key, shiftKey) {
  const { size } = viewer.picture;
  const isRegion = viewer.chosen === "region";
  if (ARROWS[key]) {
    const step = [ARROWS[key][0] * Math.max(1, Math.round(size.width * STEP)), ARROWS[key][1] * Math.max(1, Math.round(size.height * STEP))];
    if (isRegion) viewer.region = toRegion(shifted(toShape(viewer.region, size), step, size, shiftKey), size);
    else {
      const next = shifted(viewer.chosen, step, size, shiftKey);
      Object.assign(viewer, { shapes: viewer.shapes.map((each) => (each === viewer.chosen ? next : each)), chosen: next });
    }
  } else if (key === "Escape" || key === "Enter") viewer.endShape(key === "Enter");
  else if ((key === "Delete" || key === "Backspace") && !isRegion) {
    Object.assign(viewer, { shapes: viewer.shapes.filter((each) => each !== viewer.chosen), chosen: null });
  } else return false;
  return true;
}
