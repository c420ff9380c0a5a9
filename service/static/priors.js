// The panel with images of the query's patient from other studies, which come before the other results.

import { search } from "./api.js";
import { byId } from "./dom.js";
import * as reranking from "./reranking.js";
import { column } from "./result_cards.js";
import { fixed, tr } from "./translate.js";

const MOST = 24; // images in the panel

const panel = byId("priors");
let open = null; // loads the images, for a file when the user asks for them

/** Hide the panel. */
export function clear() {
  open = null;
  panel.hidden = true;
  panel.open = false;
  byId("prior-list").replaceChildren();
}

/**
 * Offer the other studies of the patient of a query. Those of an image of the collection are loaded at once. The
 * service counts how many patients a caller asks for by file, so those of a DICOM file are loaded on demand.
 * addressOf(imageId): the address of a search with an image.
 */
export async function show(query, addressOf, signal) {
  const load = async () => {
    const k = Math.min(Number(byId("k").max), MOST);
    const { results } = await search(query, { ...reranking.NONE, k, where: [], feedback: [], same_patient: true }, signal);
    if (!signal.aborted) draw(results, k, addressOf);
    return results.length;
  };
  if (query.image) {
    const count = await load();
    if (!signal.aborted) panel.open = !(panel.hidden = !count);
    return;
  }
  byId("prior-title").textContent = tr("Other studies of this patient");
  panel.hidden = false;
  open = load;
}

function draw(results, k, addressOf) {
  const count = results.length === k ? `${fixed(k, 0)}+` : fixed(results.length, 0);
  byId("prior-title").textContent = tr("Same patient ({count})", { count });
  const none = tr("The collection has no other study of this patient.");
  const title = tr("Same patient");
  const grid = column(title, results, null, addressOf).querySelector(".grid");
  grid.setAttribute("aria-label", title);
  byId("prior-list").replaceChildren(results.length ? grid : none);
}

/** Connect the panel; onError(error): its images cannot be loaded. */
export function install(onError) {
  panel.addEventListener("toggle", () => {
    if (!panel.open || !open) return;
    const load = open;
    open = null;
    load().catch((error) => {
      clear();
      if (error.name !== "AbortError") onError(error);
    });
  });
}
