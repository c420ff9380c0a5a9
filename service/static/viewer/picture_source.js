// Pictures for viewers, of files and of images of the service, kept while they may be shown again.

import { formBody, imageAddress, record, request, seriesImages, withFields } from "../api.js";
import { isShownByBrowser } from "../file_kind.js";
import { Problem } from "../problems.js";
import { EIGHT_BIT } from "./levels.js";

const MOST_BYTES = 256 * 2 ** 20; // of kept pictures
const WITHOUT_VALUES = [404, 406, 410, 415, 422]; // a picture may be there that has none
const ARRAYS = { int16: Int16Array, uint16: Uint16Array, uint8: Uint8Array, rgb8: Uint8Array };

const kept = new Map(); // {promise, bytes} by key, the latest used last
const numbers = new WeakMap(); // of files, for keys
let files = 0;

/** A text that is the same for the same picture: of a slice {file | id, collection | address, frame}. */
export function keyOf({ file, id, collection = "", address, frame }) {
  if (file && !numbers.has(file)) numbers.set(file, ++files);
  return `${file ? numbers.get(file) : (address ?? `${collection}/${id}`)}#${file ? (frame ?? 1) : ""}`;
}

/** The slices {file | id, collection | address, frame, position_mm, stack} of a viewer's source, and which is shown. */
export function slicesOf(source) {
  if (!source) return { slices: [], index: 0 };
  const { kind, slices, index = 0, window, ...slice } = source;
  if (kind !== "stack") return { slices: [slice], index: 0 };
  return { slices: slices.map((each) => ({ collection: source.collection, ...each })), index };
}

/** The stack of the frames of a file. */
export const framesOf = (slice, count) => Array.from({ length: count }, (_, index) => ({ ...slice, frame: index + 1 }));

/** Resolve with a kept promise, or with that of load(), which is kept. */
function keep(key, load) {
  const entry = kept.get(key) ?? { promise: load(), bytes: 0 };
  if (!kept.has(key)) {
    entry.promise.then(
      (picture) => {
        entry.bytes = picture.body.width * picture.body.height * (picture.stored?.BYTES_PER_ELEMENT ?? 4);
        forgetOldest();
      },
      () => kept.delete(key),
    );
  }
  kept.delete(key);
  kept.set(key, entry);
  return entry.promise;
}

function forgetOldest() {
  let bytes = [...kept.values()].reduce((sum, entry) => sum + entry.bytes, 0);
  for (const [key, entry] of kept) {
    if (bytes <= MOST_BYTES || kept.size === 1) return;
    bytes -= entry.bytes;
    kept.delete(key);
  }
}

/** Ask for the rendering or the values of a slice. */
function ask({ file, frame, id, collection, address }, fields) {
  if (file) return request("/v1/render", formBody({ file, frame }, fields));
  return request(address ? withFields(address, fields) : imageAddress(collection, id, "/picture", fields), {});
}

/** A picture without values: {size, body, factor, spacing, modality, unit, frames, windowing, rendered, bitmap}. */
async function fromBlob(blob, facts = {}) {
  const bitmap = await createImageBitmap(blob).catch(() => {
    throw new Problem("", "", false, 415);
  });
  const body = { width: bitmap.width, height: bitmap.height };
  const { windowing = null, size, spacing = null, modality = "", frames = 1 } = facts;
  const shown = { size: size ?? body, spacing, modality, unit: windowing && modality === "CT" ? "HU" : "", frames };
  // rendered: in a window by the service, which renders it in another one where the values are not at hand.
  return { ...shown, body, factor: body.width / shown.size.width, windowing: windowing ?? EIGHT_BIT, rendered: Boolean(windowing), bitmap, stored: null };
}

async function rendering(slice, window) {
  const response = await ask(slice, window ? { window: window.join(",") } : {});
  return fromBlob(await response.blob(), imageFacts(response.headers));
}

/** A picture of the facts and bytes of an answer with `pixels`. */
function pictureOf(facts, buffer) {
  const window = facts.window && [facts.window.center, facts.window.width];
  return {
    size: { width: facts.image_width, height: facts.image_height },
    body: { width: facts.width, height: facts.height },
    factor: facts.width / facts.image_width,
    ...{ spacing: facts.spacing, modality: facts.modality, unit: facts.unit, frames: facts.frames },
    ...{ type: facts.type, slope: facts.slope, intercept: facts.intercept, inverted: facts.inverted, linear: facts.linear, exact: facts.exact },
    windowing: window ? { window, values: [facts.least, facts.greatest] } : EIGHT_BIT,
    rendered: false,
    bitmap: null,
    stored: new ARRAYS[facts.type](buffer),
  };
}

/** A picture of values, with its rendering where the file is displayed by a table or curve of its own. */
async function withCurve(slice, picture) {
  if (!picture.linear) picture.bitmap = (await rendering(slice, null)).bitmap;
  return picture;
}

async function values(slice) {
  const response = await ask(slice, { pixels: "true" });
  const facts = response.headers.get("Image-Facts");
  if (!facts) throw new Problem("", "", false, 406);
  return withCurve(slice, pictureOf(JSON.parse(facts), await response.arrayBuffer()));
}

/**
 * Load the values of a slice; null if it has none. Where it may show something sooner, wait for `picture` below.
 * A slice of a file that the browser cannot show, and one whose `valued` is true, has no need of another request.
 */
export function loadValues(slice) {
  return keep(`${keyOf(slice)}values`, () => values(slice)).catch((error) => (WITHOUT_VALUES.includes(error.status) ? null : Promise.reject(error)));
}

const fileInBrowser = async ({ file }) => ((await isShownByBrowser(file)) ? fromBlob(file).catch(() => null) : null);

/** Load a slice as it is shown first: its values if `valued`, or if a file needs the service, else a rendering, in a window if one is given. */
export async function loadPicture(slice, { valued = false, window = null } = {}) {
  if (slice.file && !window) {
    const shown = await keep(`${keyOf(slice)}file`, () => fileInBrowser(slice).then((picture) => picture ?? { body: { width: 0, height: 0 } }));
    if (shown.bitmap) return shown;
  }
  const picture = (valued || slice.file) && !window && !slice.address ? await loadValues(slice) : null;
  return picture ?? keep(`${keyOf(slice)}${window ?? ""}`, () => rendering(slice, window));
}

/** Keep values that came with the answer to a search: {facts, data} as `query.pixels`, data in base64. */
export function keepValues(slice, { facts, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  keep(`${keyOf(slice)}values`, () => withCurve(slice, pictureOf(facts, bytes.buffer)));
}

export const sliceOf = ({ image_id, card }) => ({ id: image_id, position_mm: card?.slice?.position_mm, stack: card?.slice?.stack });

const stacks = new Map(); // promises of slices by collection and series

/** The slices of a series of a collection in their order, which are loaded once between two searches. */
export function slicesOfSeries(collection, { study, series }) {
  const key = `${collection}/${series}`;
  if (!stacks.has(key)) {
    stacks.set(key, seriesImages(collection, { study, series }).then((hits) => hits.map((hit) => ({ collection, ...sliceOf(hit) }))));
    stacks.get(key).catch(() => stacks.delete(key));
  }
  return stacks.get(key);
}

/** Load series anew: the collection may have got or lost slices. */
export const forgetSeries = () => stacks.clear();

/** The {slices, index} of the series of an image of a collection; null if it is alone. */
export async function seriesOf({ collection, id }) {
  const { study, series } = await record({ collection, id });
  if (!series) return null;
  const slices = await slicesOfSeries(collection, { study, series });
  const index = slices.findIndex((slice) => slice.id === id);
  return slices.length > 1 && index >= 0 ? { slices, index } : null;
}

/** {size, windowing, frames, spacing, modality} of the headers of a picture; null, 1 and "" where they do not say. */
export function imageFacts(headers) {
  const numbers = (name) => headers.get(name)?.split(",").map(Number) ?? null;
  const [size, window, spacing] = ["Image-Size", "Image-Window", "Image-Spacing"].map(numbers);
  return {
    size: size && { width: size[0], height: size[1] },
    windowing: window && { window, values: numbers("Image-Values") },
    frames: Number(headers.get("Image-Frames") ?? 1),
    spacing: spacing && { rows: spacing[0], columns: spacing[1] },
    modality: headers.get("Image-Modality") ?? "",
  };
}

/** A function that runs `work`, one call at a time, and once more if it was called meanwhile. */
export function latest(work) {
  let running = null;
  let again = false;
  const run = async () => {
    while (again) {
      again = false;
      await work();
    }
  };
  return () => {
    again = true;
    return (running ??= run().finally(() => (running = null)));
  };
}
