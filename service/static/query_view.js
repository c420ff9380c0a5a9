// The query at the side of the results: its picture, region, window and caption.

import { ApiError, record, render } from "./api.js";
import * as collection from "./collection.js";
import { Cropper } from "./crop.js";
import { byId } from "./dom.js";
import * as queryPicture from "./query_picture.js";
import * as results from "./results.js";
import { signal as runningSignal, state } from "./search_state.js";
import { Windowing } from "./windowing.js";

let cropper = null;
let windowing = null;
let rendered = null; // the last rendering of a file

/** Connect the picture; startSearch(query) searches with another region or window of it. */
export function install(startSearch) {
  cropper = new Cropper(byId("drop"), byId("region"), byId("crop"), (region) => startSearch({ ...state.query, region }));
  windowing = new Windowing(preview, (window) => startSearch({ ...state.query, window }));
  byId("crop").addEventListener("click", beginCrop);
}

/** Let the user select a region with the keyboard. */
export function beginCrop() {
  cropper.begin();
}

/** Show no query. */
export function clear() {
  queryPicture.clear();
  setRegion(null);
  windowing.set(null);
  byId("frame-field").hidden = true;
  byId("whole").hidden = true;
}

/** Show the query's picture; resolves with its title. */
export async function show(signal) {
  const { query } = state;
  byId("columns").classList.toggle("by-text", Boolean(query.text));
  if (query.text) return showText(query.text);
  return query.image ? showImage(query, signal) : showFile(query, signal);
}

function showText(text) {
  clear();
  byId("words").value = text;
  queryPicture.caption(`Words · ${text}`);
  return text;
}

async function showImage({ image, region }, signal) {
  windowing.set(null);
  const { labels, width, height } = await record(image, signal);
  const title = labels.label ?? `image ${image.slice(0, 8)}`;
  const source = collection.imageAddress(image, "/picture");
  const size = await queryPicture.show(source, `The query image, ${title}`).catch(() => null);
  if (signal.aborted) return title;
  if (!size) queryPicture.showMissing();
  setRegion(size && { width, height }, region); // in pixels of the image, not of its picture
  return region ? `Part of ${title}` : title;
}

async function showFile({ file, frame, window, region }, signal) {
  const isCurrent = rendered?.file === file && rendered.frame === frame && String(rendered.window) === String(window);
  if (!isCurrent) rendered = { file, frame, window, ...(await render({ file, frame, window }, signal)) };
  await queryPicture.show(rendered.blob, "The query image").catch(() => queryPicture.showMissing());
  if (signal.aborted) return "";
  windowing.set(rendered.windowing);
  setRegion(rendered.size, region);
  return region ? "Part of your image" : "Your image";
}

function setRegion(size, region) {
  cropper.set(size, region ?? null);
  byId("crop").disabled = !size;
}

/** Show the picture in another window while a slider moves. */
async function preview(window) {
  const { file, frame } = state.query;
  try {
    const { blob } = await render({ file, frame, window }, runningSignal());
    if (state.query?.file === file) await queryPicture.show(blob, "The query image");
  } catch (error) {
    if (error instanceof ApiError) results.showError(error);
  }
}

/** Caption the picture; info: the description of the query in the response. */
export function describe(info) {
  const { query } = state;
  const frame = info.frame ? `, frame ${info.frame}` : "";
  const name = query.image ? `Image ${query.image.slice(0, 8)} of the collection` : "Your image";
  const format = ` · ${info.format.toUpperCase()}`;
  const [x, y, width, height] = query.region ?? [];
  const size = query.region ? `region ${width} × ${height} at ${x}, ${y}` : `${info.width} × ${info.height}`;
  queryPicture.caption(`${name} · ${size}${format}${frame}`);
  byId("frame-field").hidden = !(query.file && info.frame);
}

/** The address of the query's picture, or of its region; null for words, undefined if the region cannot be drawn. */
export async function pictureSource() {
  const { query } = state;
  if (query.text) return null;
  if (!query.region) return byId("picture").src;
  if (query.image) return collection.imageAddress(query.image, "/picture", { region: query.region });
  const part = await render(query, runningSignal()).catch(() => null);
  return part ? URL.createObjectURL(part.blob) : undefined; // small; released with the page
}
