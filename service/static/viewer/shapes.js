// Draws what is measured, selected and framed in a viewer, and finds it under the pointer.

import { valuesOf } from "./film.js";
import { axesOf, textOf } from "./measures.js";
import { toPane } from "./place.js";

const SVG = "http://www.w3.org/2000/svg";
const REACH = 14; // pixels of the screen around a point that is dragged
const texts = new WeakMap(); // of shapes by the picture

function node(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

/** The text of a shape in a picture, worked out once. */
export function shapeText(shape, picture) {
  const known = texts.get(shape);
  if (known?.picture === picture) return known.text;
  // What the service has rendered in a window has no values to measure.
  const text = textOf(shape, { ...picture, values: picture.rendered ? null : valuesOf(picture) });
  texts.set(shape, { picture, text });
  return text;
}

function rectangle(layout, { x, y, width, height }, size) {
  const [a, b] = [toPane(layout, [x * size.width, y * size.height]), toPane(layout, [(x + width) * size.width, (y + height) * size.height])];
  return { x: Math.min(a[0], b[0]), y: a[1], width: Math.abs(b[0] - a[0]), height: b[1] - a[1] };
}

function drawnShape(shape, layout, picture, isChosen) {
  const [a, b] = [toPane(layout, shape.a), toPane(layout, shape.b)];
  const { x, y, rx, ry } = axesOf({ a, b });
  const isEllipse = shape.kind === "ellipse";
  const line = isEllipse ? node("ellipse", { cx: x, cy: y, rx, ry }) : node("line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1] });
  const ends = [a, b].map(([cx, cy]) => node("circle", { cx, cy, r: 4 }));
  const text = node("text", { x: Math.max(a[0], b[0]) + 8, y: isEllipse ? y - ry - 6 : Math.max(a[1], b[1]) - 6 }, shapeText(shape, picture));
  const group = node("g", { class: `viewer-shape${isChosen ? " chosen" : ""}` });
  group.append(line, ...ends, text);
  return group;
}

/** Keep a text within the pane. */
function keepInside(text, pane) {
  const { x, width, y } = text.getBBox();
  if (x + width > pane.width) text.setAttribute("x", Math.max(4, pane.width - width - 4));
  if (y < 0) text.setAttribute("y", Number(text.getAttribute("y")) - y + 4);
}

/** Draw the shapes, the region and the frame of a viewer. */
export function drawShapes(viewer) {
  const { drawing, picture, pane, region, marked, chosen } = viewer;
  if (!picture) {
    drawing.replaceChildren();
    viewer.measured.textContent = "";
    return;
  }
  const { layout, shapes } = viewer;
  const drawn = shapes.map((shape) => drawnShape(shape, layout, picture, shape === chosen));
  if (marked) drawn.push(node("rect", { class: "viewer-marked", ...rectangle(layout, marked, picture.size) }));
  if (region) {
    const inner = rectangle(layout, region, picture.size);
    const { x, y, width, height } = inner;
    const hole = `M0 0H${pane.width}V${pane.height}H0ZM${x} ${y}V${y + height}H${x + width}V${y}Z`;
    drawn.push(node("path", { class: "viewer-shade", d: hole }), node("rect", { class: `viewer-region${chosen === "region" ? " chosen" : ""}`, ...inner }));
  }
  drawing.replaceChildren(...drawn);
  for (const text of drawing.querySelectorAll("text")) keepInside(text, pane);
  const spoken = shapes.map((shape) => shapeText(shape, picture)).join("; ");
  if (viewer.measured.textContent !== spoken) viewer.measured.textContent = spoken;
}

/** The shape, and the name "a" or "b" of its point, under a point of the pane; null for none. */
export function pointAt(viewer, point) {
  for (const shape of viewer.shapes.toReversed()) {
    for (const name of ["b", "a"]) {
      const [x, y] = toPane(viewer.layout, shape[name]);
      if (Math.hypot(point[0] - x, point[1] - y) <= REACH) return { shape, name };
    }
  }
  return null;
}
