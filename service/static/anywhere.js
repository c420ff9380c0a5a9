// Searching for the region of the query at any place of the images.

import { byId } from "./dom.js";

const box = byId("anywhere"); // null where the collection has no cells

/** Whether a search with this region is to find it at any place; one with judgements learns from whole images. */
export const isChosen = (region, judgements = []) => Boolean(region && box?.checked && !judgements.length);

/** Offer the choice for a query with a region. */
export function show(query) {
  if (box) byId("anywhere-field").hidden = !query?.region || Boolean(query.files);
}

/** Set the choice to that of an address. */
export function write(text) {
  if (box) box.checked = Boolean(text);
}

/** Connect the choice; repeatSearch() searches again. */
export function install(repeatSearch) {
  box?.addEventListener("change", repeatSearch);
}
