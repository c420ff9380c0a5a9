// From values to grey levels: windows, how dragging changes one, how two pictures share one; and drawing the picture of a viewer.

import { tr } from "../translate.js";

export const EIGHT_BIT = { window: [128, 256], values: [0, 255] }; // of a picture without values of its own
const TYPES = { int16: [-32768, 65536], uint16: [0, 65536], uint8: [0, 256] }; // the least stored number, and how many there are

/** The grey level, 0 to 255, of a value in a window [center, width] as the service renders it: of DICOM (LINEAR, PS3.3, C.11.2.1.2), or exact. */
export function levelOf(value, [center, width], exact = false) {
  const [low, high] = [center - width / 2, center + width / 2 - (exact || width < 1 ? 0 : 1)]; // LINEAR is undefined below 1
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

/** Whether the values of a picture mean the same in every picture, as those of CT do, and no curve of its file displays them. */
export const isScaled = (picture) => Boolean(picture?.stored && picture.linear && picture.unit === "HU");

/** A window without digits that nobody sees. */
export const tidy = (window) => window.map((value) => Number(value.toPrecision(6)));
export const rounded = (value) => (Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3))); // as it is shown

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

export class Film {
  #painted = {}; // {picture, key} that the sheet holds
  #sheet = document.createElement("canvas"); // the pixels of the picture in its window

  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
  }

  clear() {
    this.#painted = {};
    this.#sheet.width = this.#sheet.height = 0;
  }

  draw(viewer) {
    const { pane, picture, overlay } = viewer;
    const ratio = devicePixelRatio;
    const [width, height] = [Math.round(pane.width * ratio), Math.round(pane.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = "#000";
    context.fillRect(0, 0, width, height);
    if (!picture) return;
    const { left, top, sx, sy, flipped } = viewer.layout;
    const shown = [picture.size.width * sx, picture.size.height * sy];
    context.setTransform(flipped ? -ratio : ratio, 0, 0, ratio, (flipped ? left + shown[0] : left) * ratio, top * ratio);
    context.imageSmoothingQuality = "high";
    context.drawImage(this.#pixels(viewer), 0, 0, ...shown);
    if (!overlay) return;
    context.globalAlpha = viewer.overlayOpacity;
    context.drawImage(overlay, 0, 0, ...shown);
    context.globalAlpha = 1;
  }

  /** The picture in the window of the viewer, as something that can be drawn. */
  #pixels({ picture, window, shownWindow, inverted }) {
    if (picture.bitmap && !inverted && (!window || picture.rendered)) return picture.bitmap;
    const key = `${shownWindow}${inverted}`;
    if (this.#painted.picture === picture && this.#painted.key === key) return this.#sheet;
    const isOther = this.#painted.picture !== picture;
    this.#painted = { ...(isOther ? {} : this.#painted), picture, key };
    const { width, height } = picture.body;
    if (isOther) Object.assign(this.#sheet, { width, height });
    const context = this.#sheet.getContext("2d", { willReadFrequently: true });
    const isGrey = picture.stored && picture.type !== "rgb8";
    this.#painted.source ??= picture.stored ?? bytesOf(picture.bitmap, picture.body);
    this.#painted.pixels ??= context.createImageData(width, height);
    const { source, pixels } = this.#painted;
    const windowOf = picture.rendered ? EIGHT_BIT.window : shownWindow; // the service has applied the other one
    if (isGrey) {
      const table = levelTable({ ...picture, inverted: picture.inverted !== inverted }, windowOf);
      paintGrey(source, picture.type, table, new Uint32Array(pixels.data.buffer));
    } else paintColours(source, picture.stored ? 3 : 4, levelTable({ type: "uint8", slope: 1, intercept: 0, inverted }, windowOf), pixels.data);
    context.putImageData(pixels, 0, 0);
    return this.#sheet;
  }
}

function bytesOf(bitmap, { width, height }) {
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  return context.getImageData(0, 0, width, height).data;
}

const grey = new WeakMap(); // of pictures without values: what is measured in them

/** {width, height, at(index)} of the values of a picture: those of its file, or its grey levels. */
export function valuesOf(picture) {
  const { stored, slope, intercept, body } = picture;
  if (stored && picture.type !== "rgb8") return { ...body, at: (index) => stored[index] * slope + intercept };
  if (!grey.has(picture)) {
    const [bytes, channels] = stored ? [stored, 3] : [bytesOf(picture.bitmap, body), 4];
    const at = (index) => 0.299 * bytes[channels * index] + 0.587 * bytes[channels * index + 1] + 0.114 * bytes[channels * index + 2];
    grey.set(picture, { ...body, at });
  }
  return grey.get(picture);
}
