// The groups of images that a label makes, each with a colour and a shape; and the looks of points. Without the document.

import { isNumber } from "./matching.js";

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
  let without = 0;
  for (const code of codes) {
    if (code < 0) without += 1;
    else counts[code] += 1;
  }
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
