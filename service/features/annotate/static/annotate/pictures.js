// The pictures of items: loaded ahead, in the window that the person has chosen.

import { tidy, windowInStep } from "../viewer/levels.js";
import { loadPicture } from "../viewer/picture_source.js";
import { sliceOf } from "./study_facts.js";

const PRELOADED = 4; // items whose pictures are loaded ahead

let chosen = null; // {window, picture} by the person, null for that of each file

/** Show the pictures of the next items in a window {window, picture}, or each in its own. */
export function chooseWindow(detail) {
  chosen = detail.window && detail;
}

async function sourceOf(id, from) {
  const slice = sliceOf(id);
  const picture = await loadPicture(slice);
  const window = from && windowInStep(from.window, from.picture, picture);
  if (!window) return { kind: "address", ...slice };
  await loadPicture(slice, { window: tidy(window) });
  return { kind: "address", ...slice, window: tidy(window) };
}

/** The sources of an item's pictures, if these are loaded already. */
export const loadedSources = (item) => (item.chosen === chosen ? item.loaded : null);

/** Load the pictures of an item; resolves with their sources. */
export function loadSources(item) {
  if (item.loading && item.chosen === chosen) return item.loading;
  return Promise.all(item.ids.map((id) => sourceOf(id, chosen)));
}

/** Load the pictures of the next items. */
export function preload(items) {
  for (const item of items.slice(0, PRELOADED)) {
    if (item.loading && item.chosen === chosen) continue;
    Object.assign(item, { loading: null, loaded: null });
    const loading = loadSources(item);
    Object.assign(item, { loading, chosen });
    const isLatest = () => item.loading === loading;
    loading.then((loaded) => isLatest() && (item.loaded = loaded), () => isLatest() && (item.loading = null)); // tried again when it is shown
  }
}
