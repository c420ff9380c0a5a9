// Which images of the map meet conditions, their order, the counts of a label among them, the groups that it makes, each with a colour and a
// shape, and the looks of points; and the address of an area.

import { withFields } from "../api.js";
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
export const mapAddress = ({ collection, image, hits }) => withFields("/browse", { collection, image, hits: hits.slice(0, MOST_HITS).join(",") });

const COMPARISONS = { ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, "<": (a, b) => a < b };

const isNumber = (text) => text.trim() !== "" && Number.isFinite(Number(text));

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

// After Tol's "bright" scheme, which people with any colour vision can tell apart; darker on white, lighter on black.
const COLOURS = {
  light: ["#33669a", "#d9475a", "#228833", "#9a8700", "#1e9bc9", "#aa3377"],
  dark: ["#6c9fd8", "#ee6677", "#3fae54", "#ccbb44", "#66ccee", "#d873b0"],
};
// Viridis without its palest end on white, and without its darkest on black.
const SCALES = {
  light: ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#8fb92c"],
  dark: ["#7a5bb5", "#5a7bc0", "#3f93a8", "#2bab8c", "#4ac16d", "#a0da39", "#fde725"],
};
const OTHERS = { light: "#6b7885", dark: "#8793a0" };
const SHAPES = ["circle", "square", "triangle", "diamond"];
export const PALE = SHAPES.length; // shape of points that are dimmed, below the others
const PALE_COLOURS = { light: "#d5dbe1", dark: "#2b333c" };
const BINS = SCALES.light.length;
const MANY = 200; // values beyond these share a group

/**
 * Group images by the values of a label: `codes` has the index in `values` of each image, -1 without the label.
 * Returns {groups: [{name, count, colour, shape, where}], of: group of each image}; `name` is null for images without the
 * label, `more` the number of values in a group of rare ones, `where` conditions of Browse, null if there are none.
 */
export function groupImages(key, values, codes, theme) {
  const counts = new Uint32Array(values.length);
  for (const code of codes) if (code >= 0) counts[code] += 1;
  const without = codes.filter((code) => code < 0).length;
  const isScale = values.length > 1 && values.every(isNumber);
  const { groups, groupOf } = isScale ? scaled(key, values, counts, theme) : named(key, values, counts, theme);
  if (without) groups.push({ name: null, count: without, colour: OTHERS[theme], shape: "circle", where: [`!${key}?`] });
  return { groups, of: Uint16Array.from(codes, (code) => (code < 0 ? groups.length - 1 : groupOf[code])) };
}

function named(key, values, counts, theme) {
  const colours = COLOURS[theme];
  const groups = values.slice(0, MANY).map((name, index) => ({
    name,
    count: counts[index],
    colour: index < colours.length * SHAPES.length ? colours[index % colours.length] : OTHERS[theme],
    shape: SHAPES[Math.floor(index / colours.length) % SHAPES.length],
    where: [`${key}=${name}`],
  }));
  if (values.length > MANY) {
    const count = counts.slice(MANY).reduce((sum, each) => sum + each, 0);
    groups.push({ name: "", more: values.length - MANY, count, colour: OTHERS[theme], shape: "circle", where: null });
  }
  return { groups, groupOf: values.map((_, index) => Math.min(index, MANY)) };
}

const bytesOf = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/** Red, green, blue and shape of each point of grouped images, as bytes for the graphics card; all but the `bright` points are pale, if it is not null. */
export function stylePoints({ groups, of }, bright, theme) {
  const looks = groups.map(({ colour, shape }) => [...bytesOf(colour), SHAPES.indexOf(shape)]);
  const pale = [...bytesOf(PALE_COLOURS[theme]), PALE];
  const bytes = new Uint8Array(of.length * 4);
  of.forEach((group, point) => bytes.set(bright && !bright[point] ? pale : looks[group], point * 4));
  return bytes;
}

/** Numbers from low to high, in bins with about as many images each where there are many. */
function scaled(key, values, counts, theme) {
  const order = values.map((_, index) => index).sort((one, other) => Number(values[one]) - Number(values[other]));
  const total = counts.reduce((sum, each) => sum + each, 0);
  const bins = [];
  let before = 0;
  for (const index of order) {
    const bin = order.length <= BINS ? bins.length : Math.floor((before / total) * BINS);
    if (bin !== bins.at(-1)?.bin && Number(values[index]) !== Number(values[bins.at(-1)?.members.at(-1)])) bins.push({ bin, members: [] });
    bins.at(-1).members.push(index);
    before += counts[index];
  }
  const scale = SCALES[theme];
  const groupOf = new Array(values.length);
  const groups = bins.map(({ members }, position) => {
    for (const index of members) groupOf[index] = position;
    const [low, high] = [values[members[0]], values[members.at(-1)]];
    const at = bins.length > 1 ? Math.round((position / (bins.length - 1)) * (scale.length - 1)) : 0;
    return {
      name: low === high ? low : `${low} – ${high}`,
      count: members.reduce((sum, index) => sum + counts[index], 0),
      colour: scale[at],
      shape: "circle",
      where: [`${key}>=${low}`, `${key}<=${high}`],
    };
  });
  return { groups, groupOf };
}
