// From values to grey levels: windows, how dragging changes one, and how two pictures share one. Without the document.

import { tr } from "../translate.js";

export const EIGHT_BIT = { window: [128, 256], values: [0, 255] }; // of a picture without values of its own
const TYPES = { int16: [-32768, 65536], uint16: [0, 65536], uint8: [0, 256] }; // the least stored number, and how many there are

/** The grey level, 0 to 255, of a value in a window [center, width] as the service renders it: of DICOM (LINEAR, PS3.3, C.11.2.1.2), or exact. */
export function levelOf(value, [center, width], exact = false) {
  const [low, high] = [center - width / 2, center + width / 2 - (exact ? 0 : 1)];
  if (!(low < high)) return value > low ? 255 : 0;
  return Math.round((255 * (Math.min(Math.max(value, low), high) - low)) / (high - low));
}

/** The levels of all numbers that can be stored, at index (number - least). picture: {type, slope, intercept, inverted, exact}. */
export function levelTable({ type, slope, intercept, inverted, exact }, window) {
  const [least, count] = TYPES[type];
  const table = new Uint8Array(count);
  for (let index = 0; index < count; index++) {
    const level = levelOf(slope * (least + index) + intercept, window, exact);
    table[index] = inverted ? 255 - level : level;
  }
  return table;
}

/** Write stored numbers as opaque grey pixels (RGBA words) into `words`. */
export function paintGrey(stored, type, table, words) {
  const [least] = TYPES[type];
  for (let index = 0; index < stored.length; index++) {
    const level = table[stored[index] - least];
    words[index] = 0xff000000 | (level << 16) | (level << 8) | level; // little endian, as all browsers' machines
  }
}

/** Write the bytes of colours through a table of 256 levels; channels: 3 for RGB, 4 for RGBA. */
export function paintColours(bytes, channels, table, pixels) {
  for (let from = 0, to = 0; from < bytes.length; from += channels, to += 4) {
    for (let channel = 0; channel < 3; channel++) pixels[to + channel] = table[bytes[from + channel]];
    pixels[to + 3] = channels === 4 ? bytes[from + 3] : 255;
  }
}

/**
 * The window for `to` that corresponds to `window` of `from`; both are pictures {unit, windowing}: the same one for values of
 * one unit, the same change from the windows of their files for values without; undefined for a picture of each kind.
 */
export function windowInStep(window, from, to) {
  if (from.unit !== to.unit) return undefined;
  if (!window || from.unit) return window;
  const [[center, width], [otherCenter, otherWidth]] = [from.windowing.window, to.windowing.window];
  const factor = width > 0 ? otherWidth / width : 1;
  return [otherCenter + (window[0] - center) * factor, window[1] * factor];
}

/** A window without digits that nobody sees. */
export const tidy = (window) => window.map((value) => Number(value.toPrecision(6)));

export const PRESETS = [
  { name: tr("Soft tissue"), window: [40, 400] },
  { name: tr("Lung"), window: [-600, 1500] },
  { name: tr("Bone"), window: [480, 2500] },
  { name: tr("Brain"), window: [40, 80] },
  { name: tr("Liver"), window: [90, 150] },
];

const WHOLE_RANGE = 1000; // screen pixels of a drag over half of all values

/** The window after a drag: to the right wider, down darker. */
export function dragged([center, width], right, down, [least, greatest]) {
  const span = greatest - least;
  const step = span > WHOLE_RANGE ? Math.max(1, span / 2 / WHOLE_RANGE) : span / WHOLE_RANGE;
  const narrowest = span > 32 ? 1 : span / 512 || 1;
  return [center + down * step, Math.max(width + right * step, narrowest)];
}
