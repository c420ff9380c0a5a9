// Draws the picture of a viewer on its canvas.

import { EIGHT_BIT, levelTable, paintColours, paintGrey } from "./levels.js";

const EIGHT_BIT_TABLE = { type: "uint8", slope: 1, intercept: 0, inverted: false };

export class Film {
  #painted = {}; // {picture, key} that the sheet holds
  #sheet = document.createElement("canvas"); // the pixels of the picture in its window

  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
  }

  /** Forget what is painted. */
  clear() {
    this.#painted = {};
    this.#sheet.width = this.#sheet.height = 0;
  }

  /** Draw the picture of a viewer, or black without one. */
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
    } else paintColours(source, picture.stored ? 3 : 4, levelTable({ ...EIGHT_BIT_TABLE, inverted }, windowOf), pixels.data);
    context.putImageData(pixels, 0, 0);
    return this.#sheet;
  }
}

/** The RGBA bytes of a bitmap. */
export function bytesOf(bitmap, { width, height }) {
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
