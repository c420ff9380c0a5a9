// Going to another collection, to an earlier query, or to the search of an address.

import * as address from "./address.js";
import { loadPage } from "./api.js";
import * as collection from "./collection.js";
import * as compare from "./compare.js";
import { byId, replaceIfMissing } from "./dom.js";
import * as feedback from "./feedback.js";
import * as filters from "./filters.js";
import * as reranking from "./reranking.js";
import * as results from "./results.js";
import { run, showStart, startSearch } from "./run_search.js";
import { addressOf, setControls } from "./search_params.js";
import { keepQuery, keptQuery, restart, state } from "./search_state.js";

/** Search with an earlier query, of this collection or another. */
export async function openQuery(query) {
  const available = (!query.image && !query.text) || (await openCollection(query.collection));
  if (available) startSearch(query);
}

/** Show another collection; resolves with false if that fails or the user has started something else meanwhile. */
async function openCollection(name) {
  const target = collection.nameOrDefault(name);
  if (target === collection.current()) return true;
  const signal = restart();
  try {
    const html = await loadPage(target, signal);
    if (signal.aborted) return false;
    collection.switchTo(target, html);
    reranking.refresh();
  } catch (error) {
    if (signal.aborted) return false;
    byId("collection").value = collection.current();
    byId("columns").removeAttribute("aria-busy");
    compare.close();
    results.showError(error);
    return false;
  }
  replaceMissingExamples();
  return true;
}

/** Search another collection with the user's file; a query image of the old collection is dropped. */
export async function changeCollection() {
  if (!(await openCollection(byId("collection").value))) return;
  feedback.restore(null);
  filters.write([]);
  if (!state.query?.file) state.query = null;
  history.pushState(state.query && { file: keepQuery(state.query) }, "", addressOf());
  if (state.query) run();
  else showStart();
}

/** Run the search of the address, on loading and on history navigation. */
export async function openAddress() {
  const params = address.read();
  if (!(await openCollection(params.collection))) return;
  setControls(params);
  const region = params.region?.split(",").map(Number);
  state.query = params.image ? { image: params.image, region } : keptQuery(history.state?.file);
  feedback.restore(history.state, params.said);
  reranking.describe(feedback.judgements());
  if (state.query) run();
  else showStart();
}

/** Replace pictures of the start page that fail to load by a text. */
export function replaceMissingExamples() {
  for (const image of document.querySelectorAll(".examples img")) replaceIfMissing(image);
}
