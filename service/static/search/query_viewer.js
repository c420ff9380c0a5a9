// The viewer of the query: what it shows, what the user does in it; and the reading view, the query and results beside each other.

import { isShownByBrowser } from "../file_kind.js";
import { callParts, state, update } from "../page_state.js";
import { tr } from "../translate.js";
import { html, nothing, ref } from "../vendor/lit.js";
import { EIGHT_BIT } from "../viewer/levels.js";
import { regionParts } from "../viewer/place.js";
import { openReading, resultOf } from "../viewer/reading.js";
import { changePart, collectionName, keepMarks, mark, shownHits, startSearch } from "./run.js";

const WINDOWED = ["dicom", "nifti"]; // formats that are searched in a window
const SEARCH_DELAY = 400; // ms from the last step through a stack to its search

const shown = new WeakMap(); // whether the browser shows a file by itself; else it waits for the values of its answer
let timer = null;

async function noteKind(file) {
  shown.set(file, false); // as long as it is not known
  shown.set(file, await isShownByBrowser(file));
  update({});
}

/** The query as the source of a viewer; null for words and whole series. */
function sourceOf({ image, file, frame, slices, slice, places, files, series, window }) {
  const collection = collectionName();
  if (image) return { kind: "image", collection, id: image, series: true, window };
  if (!file || series) return null;
  if (slices) return { kind: "stack", collection, slices: slices.map((each, index) => ({ file: each, ...places?.[index] })), index: slice, window };
  if (files) return { kind: "stack", collection, slices: files.map((each) => ({ file: each })), index: files.indexOf(file), word: tr("Example") };
  return { kind: "file", collection, file, frame, window };
}

/** A key that is the same for queries that show the same pictures. */
const shownKey = (query) => query.slices ?? query.files ?? query.file ?? query.image;

let last = { key: null, source: null };

/** The source of the viewer for a state: {source, waits}; waits: its picture comes with the answer. */
function viewerSource({ query, answer, shownQuery, busy, problem }) {
  const { file } = query;
  if (file && !shown.has(file)) noteKind(file);
  const answered = Boolean(answer) && shownQuery === query;
  const waits = Boolean(file) && !shown.get(file) && !answered && Boolean(busy || problem?.type?.endsWith("#unreadable-image")) && last.key !== shownKey(query);
  if (waits) return { source: null, waits };
  if (last.key !== shownKey(query)) last = { key: shownKey(query), source: sourceOf(query) };
  return { source: last.source, waits: false };
}

function searchSlice(event) {
  const { slice, byUser, index } = event.detail;
  const { query } = state;
  clearTimeout(timer);
  if (!byUser || !query || query.files || (query.file && state.facts.of_series)) return; // of a series all of it is searched with
  timer = setTimeout(() => {
    if (query !== state.query) return;
    if (query.image) changePart({ image: slice.id, region: null });
    else if (query.slices) changePart({ file: query.slices[index], slice: index, region: null });
    else changePart({ frame: index + 1, region: null });
    last.key = shownKey(state.query);
  }, SEARCH_DELAY);
}

function searchRegion({ detail, target }) {
  const { size } = target.picture ?? {};
  if (!detail || !size) return state.query.region && changePart({ region: null });
  const region = [detail.x * size.width, detail.y * size.height, detail.width * size.width, detail.height * size.height].map(Math.round);
  changePart({ region });
}

/** A window changes the picture alone, until the user searches in it. */
function noteWindow({ detail }) {
  const { query, facts, answer, shownQuery } = state;
  const hasWindow = detail.picture && detail.picture.windowing !== EIGHT_BIT && WINDOWED.includes(answer?.query.format);
  const searchable = query.file && query.file === shownQuery?.file && !query.files && !facts.of_series && hasWindow;
  update({ otherWindow: searchable && String(detail.window) !== String(query.window ?? null) ? { window: detail.window } : null });
}

const showRegion = (viewer) => (viewer.region = regionParts(state.query ?? {}, viewer.picture?.size));

let synced = {}; // {viewer, query} whose region and window were shown last

/** Show a source in the viewer that is drawn; only another one, since a viewer goes to the slice of what it is given. */
function showSource(viewer, source) {
  if (!viewer) return;
  if (viewer.source !== source) viewer.source = source;
  const { query } = state;
  if (synced.viewer === viewer && synced.query === query) return;
  const before = synced.viewer === viewer ? synced.query.window : viewer.window;
  synced = { viewer, query };
  showRegion(viewer);
  if (String(query.window ?? null) !== String(before ?? null)) viewer.changeWindow(query.window ?? null);
}

/** The picture of the query for a state. */
export function queryPicture(now) {
  const { query, busy, facts } = now;
  const { source, waits } = viewerSource(now);
  return html`<cbir-viewer tools=${query.files || facts.of_series ? "window zoom measure" : "window zoom measure region"} label=${tr("The query image")} @cbir-slice=${searchSlice} @cbir-region=${searchRegion}
      @cbir-window=${noteWindow} @cbir-ready=${({ target }) => showRegion(target)} ${ref((viewer) => showSource(viewer, source))}></cbir-viewer>
    ${waits ? html`<span class="waits"><span>${busy ? tr("Reading the picture …") : ""}</span></span>` : nothing}`;
}

export const queryViewer = () => document.querySelector("#side cbir-viewer");

export const captionOf = ({ text, image }) => text ?? (image ? tr("Image {name} of the collection", { name: image.slice(0, 8) }) : tr("Your image"));

/** Compare results with the query: those of the page, or others; from one of them, or from the first. */
export function openComparison(from = shownHits(state)[0], listed = shownHits(state)) {
  const { shownQuery: query } = state;
  const hits = listed.filter(({ site }) => !site);
  if (!hits.length) return;
  const viewer = query === state.query ? queryViewer() : null; // which else shows the query whose results are awaited
  const source = query.text ? null : sourceOf(query);
  openReading({
    query: { source: source && { ...source, window: viewer?.window ?? query.window }, caption: captionOf(query), region: regionParts(query, viewer?.picture?.size) },
    results: hits.map((hit) => resultOf(hit, collectionName())),
    index: Math.max(hits.findIndex(({ image_id }) => image_id === from.image_id), 0),
    actions: {
      search: (image) => startSearch({ image }),
      ...(!query.text && query === state.query && { mark, markOf: (image) => state.marks.get(image) }),
      shown: ({ hit }) => callParts("openResult", "compare", hit),
      told: ({ hit }) => callParts("openResult", "metadata", hit),
      closed: ({ id }, isSame) => {
        if (isSame) keepMarks(); // in the entry of the history below the view's
        document.querySelector(`#columns .card[data-image="${CSS.escape(id)}"]`)?.focus();
      },
    },
  });
}
