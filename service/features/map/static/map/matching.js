// Which images of the map meet conditions, their order, and the counts of a label among them. Without the document.

import { parse } from "../browse/conditions.js";

export const MOST_HITS = 100; // results in an address
const MOST_CORNERS = 48;
const DECIMALS = 5; // places of images have 4

/** The text of an outline [[x, y], ...]; of many corners an even choice. */
export function writeArea(outline) {
  const step = Math.max(1, outline.length / MOST_CORNERS);
  const corners = outline.length > MOST_CORNERS ? Array.from({ length: MOST_CORNERS }, (_, index) => outline[Math.floor(index * step)]) : outline;
  return corners.flat().map((value) => Number(value.toFixed(DECIMALS))).join(",");
}

/** The outline of a text; [] if it is none. */
export function readArea(text) {
  const numbers = (text ?? "").split(",").map(Number);
  if (numbers.length < 6 || numbers.length % 2 || !numbers.every(Number.isFinite)) return [];
  return Array.from({ length: numbers.length / 2 }, (_, index) => numbers.slice(2 * index, 2 * index + 2));
}

/** The address of the map with a query image of the collection, or none, and the ids of results. */
export function mapAddress({ collection, image, hits }) {
  const fields = { collection, image, hits: hits.slice(0, MOST_HITS).join(",") };
  return `/browse?${new URLSearchParams(Object.entries(fields).filter(([, value]) => value))}`;
}

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
