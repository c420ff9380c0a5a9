// The keys of a viewer.

import { PRESETS } from "./levels.js";
import { shifted } from "./measures.js";
import { stepsOf } from "./stacks.js";

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
  else if (key === "Enter" && ["measure", "region"].includes(viewer.tool)) begin(viewer);
  else if (key === "Delete" && viewer.shapes.length) viewer.shapes = viewer.shapes.slice(0, -1);
  else return false;
  viewer.strip.draw();
  return true;
}

/** Begin a shape or a region in the middle of the picture. */
function begin(viewer) {
  if (viewer.tool === "region") return viewer.beginRegion();
  const { width, height } = viewer.picture.size;
  const shape = { kind: viewer.shapeKind, a: [width * 0.4, height * 0.5], b: [width * 0.6, height * (viewer.shapeKind === "ellipse" ? 0.6 : 0.5)] };
  viewer.chosen = shape;
  viewer.shapes = [...viewer.shapes, shape];
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
      const shapes = viewer.shapes.map((each) => (each === viewer.chosen ? next : each));
      viewer.chosen = next;
      viewer.shapes = shapes;
    }
  } else if (key === "Escape" || key === "Enter") viewer.endShape(key === "Enter");
  else if ((key === "Delete" || key === "Backspace") && !isRegion) {
    viewer.shapes = viewer.shapes.filter((each) => each !== viewer.chosen);
    viewer.chosen = null;
  } else return false;
  return true;
}
