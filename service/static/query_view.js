// The query at the side of the results: its picture, region, window, frame and caption.

import { ApiError, record, render } from "./api.js";
import * as collection from "./collection.js";
import { Cropper } from "./crop.js";
import { byId } from "./dom.js";
import * as frameStepper from "./frame_stepper.js";
import { latest } from "./latest.js";
import { atPosition, positionOf } from "./positions.js";
import * as queryPicture from "./query_picture.js";
import { Renderings } from "./renderings.js";
import * as results from "./results.js";
import { signal as runningSignal, state } from "./search_state.js";
import { tr } from "./translate.js";
import { Windowing } from "./windowing.js";

const SEARCH_DELAY = 400; // ms from the last step through a stack to its search

const renderings = new Renderings((part) => render(part));
const preview = latest(drawPreview);

let cropper = null;
let windowing = null;
let rendered = null; // the rendering of the query's file that is shown
let movingWindow = null; // of the sliders, before a search
let timer = null; // of the search after a step

/** Connect the picture; startSearch(query) searches with another part of it, repeatSearch() with what state.query has become. */
export function install(startSearch, repeatSearch) {
  cropper = new Cropper(byId("drop"), byId("region"), byId("crop"), (region) => startSearch({ ...state.query, region }));
  windowing = new Windowing(previewWindow, (window) => startSearch({ ...state.query, window }));
  frameStepper.install((index) => step(index, repeatSearch));
  byId("crop").addEventListener("click", beginCrop);
}

/** Show CT in one of the windows of `PRESETS`. */
export function choosePreset(index) {
  windowing.choosePreset(index);
}

/** Let the user select a region with the keyboard. */
export function beginCrop() {
  cropper.begin();
}

/** Show no query. */
export function clear() {
  clearTimeout(timer);
  queryPicture.clear();
  setRegion(null);
  windowing.set(null);
  frameStepper.show(null);
  showNote("");
  rendered = null;
  byId("whole").hidden = true;
}

/** Show the query's picture; resolves with its title. */
export async function show(signal) {
  const { query } = state;
  clearTimeout(timer);
  movingWindow = null;
  byId("columns").classList.toggle("by-text", Boolean(query.text));
  showNote(query.note ?? "");
  if (query.text) return showText(query.text);
  try {
    return await (query.image ? showImage(query, signal) : showFile(query, signal));
  } catch (error) {
    if (!signal.aborted) clear(); // else the picture of the query before would stay
    throw error;
  }
}

function showText(text) {
  clear();
  byId("words").value = text;
  queryPicture.caption(tr("Words · {text}", { text }));
  return text;
}

async function showImage({ image, region }, signal) {
  windowing.set(null);
  frameStepper.show(null);
  rendered = null;
  const { labels, width, height } = await record(image, signal);
  const title = labels.label ?? tr("image {name}", { name: image.slice(0, 8) });
  const source = collection.imageAddress(image, "/picture");
  const size = await queryPicture.show(source, tr("The query image, {title}", { title })).catch(() => null);
  if (signal.aborted) return title;
  if (!size) queryPicture.showMissing();
  setRegion(size && { width, height }, region); // in pixels of the image, not of its picture
  return region ? tr("Part of {title}", { title }) : title;
}

async function showFile(query, signal) {
  if (rendered?.file !== query.file) {
    byId("caption").hidden = true;
    frameStepper.show(null);
  }
  const loaded = await renderings.get(query);
  if (signal.aborted) return "";
  rendered = { ...loaded, file: query.file };
  await queryPicture.show(rendered.blob, tr("The query image")).catch(() => queryPicture.showMissing());
  if (signal.aborted) return "";
  const isPart = !query.files && !collection.isOfSeries(); // regions and windows are of single images
  windowing.set(isPart ? rendered.windowing : null, rendered.modality);
  setRegion(isPart ? rendered.size : null, query.region);
  showPosition();
  if (query.files) return tr("{count} of your images", { count: query.files.length });
  return query.region ? tr("Part of your image") : tr("Your image");
}

function setRegion(size, region) {
  cropper.set(size, region ?? null);
  byId("crop").disabled = !size;
}

function showPosition() {
  frameStepper.show(collection.isOfSeries() ? null : positionOf(state.query, rendered.frames));
}

function showNote(text) {
  byId("input-note").textContent = text;
  byId("input-note").hidden = !text;
}

/** Show another frame, slice or example at once; search with it when the user has stopped. Examples are one query. */
function step(index, repeatSearch) {
  Object.assign(state.query, atPosition(state.query, index));
  setRegion(state.query.files ? null : rendered.size, null);
  showPosition();
  preview();
  clearTimeout(timer);
  if (!state.query.files) timer = setTimeout(repeatSearch, SEARCH_DELAY);
}

/** Show the picture in another window while a slider moves. */
function previewWindow(window) {
  movingWindow = window;
  preview();
}

async function drawPreview() {
  const { query } = state;
  const part = { ...query, window: movingWindow ?? query.window };
  try {
    const loaded = await renderings.get(part);
    if (state.query !== query || query.file !== part.file || query.frame !== part.frame) return;
    rendered = { ...loaded, file: part.file };
    await queryPicture.show(loaded.blob, tr("The query image"));
    prefetch(query);
  } catch (error) {
    if (error instanceof ApiError) results.showError(error);
  }
}

/** Fetch the next and the previous rendering, so that they are there when the user goes on. */
function prefetch(query) {
  const position = positionOf(query, rendered.frames);
  for (const index of position ? [position.index + 1, position.index - 1] : []) {
    if (index >= 0 && index < position.count) renderings.get({ ...query, ...atPosition(query, index) }).catch(() => {});
  }
}

/** Caption the picture; info: the description of the query in the response. */
export function describe(info) {
  const { query } = state;
  if (query.files) {
    queryPicture.caption(tr("{count} of your images, one query", { count: query.files.length }));
    return;
  }
  const frame = query.slices ? tr("slice {number}", { number: query.slice + 1 }) : info.frame ? tr("frame {number}", { number: info.frame }) : "";
  const name = query.image ? tr("Image {name} of the collection", { name: query.image.slice(0, 8) }) : tr("Your image");
  const format = [info.format.toUpperCase(), frame].filter(Boolean).join(", ");
  const [x, y, width, height] = query.region ?? [];
  const size = query.region ? tr("region {width} × {height} at {x}, {y}", { width, height, x, y }) : `${info.width} × ${info.height}`;
  queryPicture.caption(`${name} · ${size} · ${format}`);
  if (query.file) prefetch(query);
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
