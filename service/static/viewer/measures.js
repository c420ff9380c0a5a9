// Lengths, and the values in an ellipse. Without the document.

import { fixed, tr } from "../translate.js";
import { clamp } from "./place.js";
import { within } from "./stacks.js";

/** The length of a line {a, b} between two points of a picture: {pixels, mm}, mm null without a spacing {rows, columns}. */
export function lengthOf({ a, b }, spacing) {
  const [right, down] = [b[0] - a[0], b[1] - a[1]];
  return { pixels: Math.hypot(right, down), mm: spacing ? Math.hypot(right * spacing.columns, down * spacing.rows) : null };
}

/** The middle and half axes of the ellipse in the rectangle with corners a and b. */
export function axesOf({ a, b }) {
  return { x: (a[0] + b[0]) / 2, y: (a[1] + b[1]) / 2, rx: Math.abs(b[0] - a[0]) / 2, ry: Math.abs(b[1] - a[1]) / 2 };
}

/**
 * {count, mean, deviation, least, most} of the values whose pixels have their middle in an ellipse; null if there is none.
 * values: {width, height, at(index)} of a picture's pixels; factor: of these for a pixel of the picture.
 */
export function valuesIn(shape, values, factor = 1) {
  const { x, y, rx, ry } = axesOf({ a: shape.a.map((each) => each * factor), b: shape.b.map((each) => each * factor) });
  let [count, sum, squares, least, most] = [0, 0, 0, Infinity, -Infinity];
  const shift = values.at(within(Math.floor(y), values.height) * values.width + within(Math.floor(x), values.width)); // against cancellation
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

/** A length in words, in mm where it is known. */
export function lengthText(shape, spacing) {
  const { pixels, mm } = lengthOf(shape, spacing);
  return mm === null ? `${Math.round(pixels)} px` : `${fixed(mm, 1)} mm`;
}

/** Mean, deviation and area of an ellipse in words. picture: {spacing, unit, values, factor}. */
export function ellipseText(shape, { spacing, unit, values, factor }) {
  const { rx, ry } = axesOf(shape);
  const area = Math.PI * rx * ry;
  const size = spacing ? `${fixed((area * spacing.rows * spacing.columns) / 100, 2)} cm²` : `${Math.round(area)} px²`;
  const found = values && valuesIn(shape, values, factor);
  if (!found) return size;
  const digits = Math.abs(found.most - found.least) < 10 ? 2 : 1;
  return `${tr("mean {mean} ± {deviation}", { mean: fixed(found.mean, digits), deviation: fixed(found.deviation, digits) })}${unit && ` ${unit}`} · ${size}`;
}

/** What a shape {kind, a, b} measures in a picture. */
export const textOf = (shape, picture) => (shape.kind === "ellipse" ? ellipseText(shape, picture) : lengthText(shape, picture.spacing));

/** A shape moved by a step in pixels, or with only its second point moved, within a picture of `size`. */
export function shifted(shape, [right, down], size, onlyEnd = false) {
  const inside = ([x, y]) => [clamp(x, 0, size.width), clamp(y, 0, size.height)];
  const move = ([x, y]) => [x + right, y + down];
  if (onlyEnd) return { ...shape, b: inside(move(shape.b)) };
  const both = [move(shape.a), move(shape.b)];
  return both.every((point) => String(inside(point)) === String(point)) ? { ...shape, a: both[0], b: both[1] } : shape;
}
