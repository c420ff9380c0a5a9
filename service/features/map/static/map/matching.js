// Which images of the map meet conditions, their order, and the counts of a label among them. Without the document.

import { parse } from "../browse/conditions.js";

const COMPARISONS = { ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, "<": (a, b) => a < b };

export const isNumber = (text) => text.trim() !== "" && Number.isFinite(Number(text));

/** The tests of conditions: [[key, (value) => true if it fits]]; the value is undefined for images without the label. */
function testsOf(where) {
  const chosen = new Map(); // values of "=", any of which fits
  const tests = [];
  for (const { key, operator, value } of where.map(parse).filter(Boolean)) {
    if (operator === "=" && chosen.has(key)) chosen.get(key).add(value);
    else if (operator === "=") {
      const values = new Set([value]);
      chosen.set(key, values);
      tests.push([key, (each) => values.has(each)]);
    } else if (operator === "!=") tests.push([key, (each) => each !== value]);
    else if (operator.endsWith("?")) tests.push([key, (each) => (each === undefined) === (operator === "!?")]);
    else tests.push([key, (each) => each !== undefined && isNumber(each) && COMPARISONS[operator](Number(each), Number(value))]);
  }
  return tests;
}

/** The points that meet all conditions. labelsOf(key): resolves with its {values, codes}, a code for each point, -1 without the label. */
export async function meeting(points, where, labelsOf) {
  let left = points;
  for (const [key, fits] of testsOf(where)) {
    const { values, codes } = await labelsOf(key);
    const table = [...values.map((value) => fits(value)), fits(undefined)];
    left = left.filter((point) => table.at(codes[point]));
  }
  return left;
}

/** Points in an order: newest, oldest, or by a label: numbers, then texts, then images without it. */
export async function ordered(points, sort, labelsOf) {
  const [, sign, key] = /^(-?)label:(.*)$/s.exec(sort) ?? [];
  if (key === undefined) return sort === "newest" ? points.toReversed() : points;
  const { values, codes } = await labelsOf(key);
  const compare = (a, b) => isNumber(b) - isNumber(a) || (sign ? -1 : 1) * (isNumber(a) ? Number(a) - Number(b) : a < b ? -1 : a > b);
  const ranks = [];
  values.map((_, code) => code).sort((a, b) => compare(values[a], values[b])).forEach((code, rank) => (ranks[code] = rank));
  const rankOf = (point) => ranks[codes[point]] ?? Infinity;
  return points.toSorted((a, b) => (rankOf(a) === rankOf(b) ? a - b : rankOf(a) - rankOf(b)));
}

/** The most frequent values of a label among points, as the service counts them. */
export function counted(points, { values, codes }, limit) {
  const counts = new Map();
  for (const point of points) if (codes[point] >= 0) counts.set(codes[point], (counts.get(codes[point]) ?? 0) + 1);
  const items = [...counts].map(([code, images]) => ({ value: values[code], images })).sort((a, b) => b.images - a.images || (a.value < b.value ? -1 : 1));
  const numbers = items.map(({ value }) => value).filter(isNumber).map(Number);
  const bound = (take) => (numbers.length ? numbers.reduce((a, b) => take(a, b)) : null);
  return { items: items.slice(0, limit), values: items.length, minimum: bound(Math.min), maximum: bound(Math.max) };
}
