// Lengths, and the values in an ellipse: measures them, draws what is measured, selected and framed in a viewer, and finds it under the pointer.

import { fixed, tr } from "../translate.js";
import { indexWithin } from "./groups.js";
import { valuesOf } from "./levels.js";
import { clamp, toPane } from "./place.js";
import { live, nothing, render, svg } from "../vendor/lit.js";

/** The middle and half axes of the ellipse in the rectangle with corners a and b. */
const axesOf = ({ a, b }) => ({ x: (a[0] + b[0]) / 2, y: (a[1] + b[1]) / 2, rx: Math.abs(b[0] - a[0]) / 2, ry: Math.abs(b[1] - a[1]) / 2 });

/**
 * {count, mean, deviation, least, most} of the values whose pixels have their middle in an ellipse; null if there is none.
 * values: {width, height, at(index)} of a picture's pixels; factor: of these for a pixel of the picture.
 */
export function valuesIn(shape, values, factor = 1) {
  const { x, y, rx, ry } = axesOf({ a: shape.a.map((each) => each * factor), b: shape.b.map((each) => each * factor) });
  let [count, sum, squares, least, most] = [0, 0, 0, Infinity, -Infinity];
  const shift = values.at(indexWithin(Math.floor(y), values.height) * values.width + indexWithin(Math.floor(x), values.width)); // against cancellation
  for (let row = Math.max(0, Math.floor(y - ry)); row < Math.min(values.height, y + ry); row++) {
    const down = (row + 0.5 - y) / ry;
    const half = Math.abs(down) <= 1 ? rx * Math.sqrt(1 - down * down) : -1;
    const last = Math.min(values.width - 1, Math.floor(x + half - 0.5));
    for (let column = Math.max(0, Math.ceil(x - half - 0.5)); half >= 0 && column <= last; column++) {
      const value = values.at(row * values.width + column);
      count += 1;
      sum += value - shift;
      squares += (value - shift) ** 2;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  if (!count) return null;
  const mean = sum / count;
  return { count, mean: shift + mean, deviation: Math.sqrt(Math.max(squares / count - mean * mean, 0)), least, most };
}

/** The length of a line {a, b} between two points of a picture, in mm where its spacing {rows, columns} is known. */
export function lengthText({ a, b }, spacing) {
  const [right, down] = [b[0] - a[0], b[1] - a[1]];
  return spacing ? `${fixed(Math.hypot(right * spacing.columns, down * spacing.rows), 1)} mm` : `${Math.round(Math.hypot(right, down))} px`;
}

/** Mean, deviation and area of an ellipse in words. picture: {spacing, unit, values, factor}. */
export function ellipseText(shape, { spacing, unit, values, factor }) {
  const { rx, ry } = axesOf(shape);
  const area = Math.PI * rx * ry;
  const size = spacing ? `${fixed((area * spacing.rows * spacing.columns) / 100, 2)} cm²` : `${Math.round(area)} px²`;
  const found = values && valuesIn(shape, values, factor);
  if (!found) return size;
  const span = Math.abs(found.most - found.least) || 1;
  const digits = Math.max(span < 10 ? 2 : 1, 1 - Math.floor(Math.log10(span))); // doses are small
  return `${tr("mean {mean} ± {deviation}", { mean: fixed(found.mean, digits), deviation: fixed(found.deviation, digits) })}${unit && ` ${unit}`} · ${size}`;
}

/** A shape moved by a step in pixels, or with only its second point moved, within a picture of `size`. */
export function shifted(shape, [right, down], size, onlyEnd = false) {
  const inside = ([x, y]) => [clamp(x, 0, size.width), clamp(y, 0, size.height)];
  const move = ([x, y]) => [x + right, y + down];
  if (onlyEnd) return { ...shape, b: inside(move(shape.b)) };
  const both = [move(shape.a), move(shape.b)];
  return both.every((point) => String(inside(point)) === String(point)) ? { ...shape, a: both[0], b: both[1] } : shape;
}

const REACH = 14; // pixels of the screen around a point that is dragged
const texts = new WeakMap(); // of shapes by the picture

/** The text of a shape in a picture, worked out once. */
function shapeText(shape, picture) {
  const known = texts.get(shape);
  if (known?.picture === picture) return known.text;
  // What the service has rendered in a window has no values to measure.
  const values = picture.rendered ? null : valuesOf(picture);
  const text = shape.kind === "ellipse" ? ellipseText(shape, { ...picture, values }) : lengthText(shape, picture.spacing);
  texts.set(shape, { picture, text });
  return text;
}

function rectangle(kind, layout, { x, y, width, height }, size) {
  const [a, b] = [toPane(layout, [x * size.width, y * size.height]), toPane(layout, [(x + width) * size.width, (y + height) * size.height])];
  const [left, top, across, down] = [Math.min(a[0], b[0]), a[1], Math.abs(b[0] - a[0]), b[1] - a[1]];
  const path = `M${left} ${top}V${top + down}H${left + across}V${top}Z`;
  return { path, drawn: svg`<rect class=${kind} x=${left} y=${top} width=${across} height=${down}></rect>` };
}

function drawnShape(shape, layout, picture, isChosen) {
  const [a, b] = [toPane(layout, shape.a), toPane(layout, shape.b)];
  const { x, y, rx, ry } = axesOf({ a, b });
  const isEllipse = shape.kind === "ellipse";
  const [right, above] = [Math.max(a[0], b[0]) + 8, (isEllipse ? y - ry : Math.max(a[1], b[1])) - 6];
  return svg`<g class=${`viewer-shape${isChosen ? " chosen" : ""}`}>
    ${isEllipse ? svg`<ellipse cx=${x} cy=${y} rx=${rx} ry=${ry}></ellipse>` : svg`<line x1=${a[0]} y1=${a[1]} x2=${b[0]} y2=${b[1]}></line>`}
    ${[a, b].map(([cx, cy]) => svg`<circle cx=${cx} cy=${cy} r="4"></circle>`)}<text x=${live(right)} y=${live(above)}>${shapeText(shape, picture)}</text></g>`;
}

function keepInside(text, pane) {
  const { x, width, y } = text.getBBox();
  if (x + width > pane.width) text.setAttribute("x", Math.max(4, pane.width - width - 4));
  if (y < 0) text.setAttribute("y", Number(text.getAttribute("y")) - y + 4);
}

export function drawShapes(viewer) {
  const { drawing, picture, pane, region, marked, chosen } = viewer;
  const { layout, shapes } = picture ? viewer : { shapes: [] };
  const frame = picture && marked && rectangle("viewer-marked", layout, marked, picture.size);
  const inner = picture && region && rectangle(`viewer-region${chosen === "region" ? " chosen" : ""}`, layout, region, picture.size);
  render([
    shapes.map((shape) => drawnShape(shape, layout, picture, shape === chosen)),
    frame ? frame.drawn : nothing,
    inner ? svg`<path class="viewer-shade" d=${`M0 0H${pane.width}V${pane.height}H0Z${inner.path}`}></path>${inner.drawn}` : nothing,
  ], drawing);
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
