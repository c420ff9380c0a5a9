// The query at the side of the results: its picture, region, window, frame and caption.

import { ApiError, picture, record, render } from "./api.js";
import * as collection from "./collection.js";
import { Cropper } from "./crop.js";
import { byId } from "./dom.js";
import * as frameStepper from "./frame_stepper.js";
import { latest } from "./latest.js";
import * as tools from "./picture_tools.js";
import { atPosition, positionOf } from "./positions.js";
import { captionOf } from "./query_caption.js";
import * as queryPicture from "./query_picture.js";
import { Renderings } from "./renderings.js";
import * as results from "./results.js";
import { state } from "./search_state.js";
import { tr } from "./translate.js";
import { Windowing } from "./windowing.js";

const SEARCH_DELAY = 400; // ms from the last step through a stack to its search

const renderings = new Renderings((part) => render(part));
const preview = latest(drawPreview);

let cropper = null;
let windowing = null;
let rendered = null; // the rendering that is shown: of the query's file, or of its image of the collection
let movingWindow = null; // of the sliders, before a search
let patient = null; // key of the patient of the collection's image that is shown
let timer = null; // of the search after a step

/** Connect the picture; startSearch(query) searches with another part of it, repeatSearch() with what state.query has become. */
export function install(startSearch, repeatSearch) {
  tools.install({ onMove: () => cropper?.draw(), factsOf: () => rendered }); // before what else a press on the picture does
  cropper = new Cropper(byId("drop"), byId("region"), byId("crop"), (region) => startSearch({ ...state.query, region }), tools.place);
  windowing = new Windowing(previewWindow, (window) => changeWindow(window, startSearch));
  frameStepper.install((index) => step(index, repeatSearch));
  byId("crop").addEventListener("click", beginCrop);
}

/** Whether the patient of the query may be known: that of a DICOM file by the service only. */
export function hasPatient(info) {
  const { query } = state;
  return query.image ? Boolean(patient) : Boolean(query.file && !query.files && info.format === "dicom");
}

/** {width, height} of the query's picture; null if it is unknown. */
export const sizeOf = () => rendered?.size ?? null;

/** Show CT in one of the windows of `PRESETS`. */
export const choosePreset = (index) => windowing.choosePreset(index);

/** Let the user select a region with the keyboard. */
export const beginCrop = () => cropper.begin();

/** Show no query. */
export function clear() {
  clearTimeout(timer);
  queryPicture.clear();
  tools.show(false);
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
  frameStepper.show(null);
  const isNew = rendered?.image !== image;
  const missing = (error) => (error instanceof ApiError ? null : Promise.reject(error));
  const [{ labels, width, height, patient_key }, loaded] = await Promise.all([record(image, signal), picture(image, {}, signal).catch(missing)]);
  patient = patient_key;
  const title = labels.label ?? tr("image {name}", { name: image.slice(0, 8) });
  const isShown = loaded && (await queryPicture.show(loaded.blob, tr("The query image, {title}", { title })).catch(() => null));
  if (signal.aborted) return title;
  rendered = isShown && { ...loaded, size: { width, height }, image }; // the size of the image, not that of its picture
  if (!isShown) queryPicture.showMissing();
  tools.show(Boolean(isShown), isNew);
  setWindowing();
  setRegion(rendered?.size, region);
  return region ? tr("Part of {title}", { title }) : title;
}

async function showFile(query, signal) {
  if (rendered?.file !== query.file) {
    byId("caption").hidden = true;
    frameStepper.show(null);
  }
  const isNew = rendered?.file !== query.file && !query.slices;
  const loaded = await renderings.get(query);
  if (signal.aborted) return "";
  rendered = { ...loaded, file: query.file };
  tools.show(true, isNew);
  await queryPicture.show(rendered.blob, tr("The query image")).catch(() => queryPicture.showMissing());
  if (signal.aborted) return "";
  setWindowing();
  setRegion(isSingle(query) ? rendered.size : null, query.region);
  showPosition();
  if (query.files) return tr("{count} of your images", { count: query.files.length });
  return query.region ? tr("Part of your image") : tr("Your image");
}

/** Regions and windows are of single images. */
const isSingle = (query) => !query.files && !collection.isOfSeries();

function setWindowing() {
  windowing.set(rendered && isSingle(state.query) ? rendered.windowing : null, rendered?.modality);
  byId("window-hint").hidden = !state.query.image;
}

/** Search in another window, or show an image of the collection in it, whose stored values are searched with. */
async function changeWindow(window, startSearch) {
  if (!state.query.image) return startSearch({ ...state.query, window });
  movingWindow = window;
  await preview();
  setWindowing();
}

function setRegion(size, region) {
  cropper.set(size, region ?? null);
  Object.assign(byId("drop").dataset, size); // what regions are measured in
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
  const window = movingWindow ?? query.window;
  const part = { ...query, window };
  try {
    const loaded = await (query.image ? picture(query.image, { window }) : renderings.get(part));
    if (state.query !== query || query.file !== part.file || query.frame !== part.frame) return;
    rendered = { ...rendered, ...loaded, size: query.image ? rendered.size : loaded.size, file: part.file };
    await queryPicture.show(loaded.blob, tr("The query image"));
    if (query.file) prefetch(query);
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
  queryPicture.caption(captionOf(state.query, info));
  if (state.query.file && !state.query.files) prefetch(state.query);
}
