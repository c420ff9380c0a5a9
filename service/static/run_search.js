// Running the search: with a new query, with judgements, or again after a change of the settings.

import { ApiError, search } from "./api.js";
import * as compare from "./compare.js";
import { byId } from "./dom.js";
import * as feedback from "./feedback.js";
import * as grade from "./grade.js";
import * as overview from "./overview.js";
import * as queryView from "./query_view.js";
import * as recent from "./recent.js";
import * as reranking from "./reranking.js";
import * as results from "./results.js";
import { addressOf, currentAddress, searchParams, selectedView } from "./search_params.js";
import { keepQuery, restart, state } from "./search_state.js";
import * as share from "./share.js";

const COMPARED_DEPTH = 5; // times k: depth of the original list in which moves are looked up

/** Search with a new query, as a new history entry. */
export function startSearch(query) {
  feedback.restore("");
  if (query.image) history.pushState(null, "", addressOf(query.image, query.region));
  else history.pushState({ file: keepQuery(query) }, "", addressOf());
  state.query = query;
  byId("frame").value = query.frame ?? 1;
  feedback.show();
  run();
}

/** Search with a file of the user. */
export function searchFile(file) {
  const maxBytes = Number(byId("query").dataset.maxUploadBytes);
  byId("frame").value = 1;
  if (file.size > maxBytes) {
    clearQuery();
    results.showError(new ApiError("The image is too large", `The limit is ${Math.floor(maxBytes / 2 ** 20)} MiB.`));
    return;
  }
  startSearch({ file, frame: 1, window: null, region: null });
}

/** Search with the whole image again, after a search with a region of it. */
export function searchWholeImage() {
  if (!state.query?.region) return;
  const { region, ...rest } = state.query;
  startSearch(rest.image ? { image: rest.image } : rest);
}

/** Search again with the user's judgements, as a new history entry. */
export function searchWithJudgements() {
  if (!state.query || state.query.text || byId("learn").disabled) return;
  const entry = feedback.commit(history.state);
  history.pushState(entry, "", currentAddress());
  feedback.show();
  run();
}

/** Repeat the search after a change of the settings. */
export function repeatSearch() {
  reranking.describe(feedback.judgements());
  const { query } = state;
  if (!query) {
    history.replaceState(null, "", addressOf());
    return;
  }
  if (query.file) {
    const frame = Number(byId("frame").value) || 1;
    if (frame !== query.frame) Object.assign(query, { frame, region: null, window: null });
  }
  history.replaceState(history.state, "", currentAddress());
  run();
}

/** Search with the present query and settings. */
export async function run() {
  reranking.describe(feedback.judgements());
  const { query } = state;
  if (!query || !byId("query").reportValidity()) return;
  const signal = restart();
  const params = searchParams();
  compare.close();
  share.clear();
  grade.clear();
  overview.clear();
  byId("go").disabled = false;
  byId("whole").hidden = !query.region;
  results.showWaiting(Math.min(params.k, 20));
  try {
    const picture = queryView.show(signal);
    picture.catch(() => {}); // its errors are handled below, after the results
    const after = await search(query, params, signal);
    showAnswer(after, params);
    const title = await picture;
    if (signal.aborted || query.text) return;
    queryView.describe(after.query);
    recent.add(query, title, byId("picture"));
    grade.show(query, addressOf, signal).catch(() => {}); // results are useful without grades
    if (after.results.length && params.rerank !== "none") await loadOriginalOrder(params, signal);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    state.shown = null;
    overview.clear();
    results.showError(error);
  } finally {
    if (!signal.aborted) byId("columns").removeAttribute("aria-busy");
  }
}

function showAnswer(after, params) {
  if (!after.results.length) {
    state.shown = null;
    results.showNoResults(params.where);
    return;
  }
  state.shown = { after, before: null, k: params.k };
  showResults();
  overview.show(after);
  results.scrollToResults();
}

/** Load the order without re-ranking, to show what moved. */
async function loadOriginalOrder(params, signal) {
  const k = Math.min(Number(byId("k").max), COMPARED_DEPTH * params.k);
  state.shown.before = await search(state.query, { ...params, ...reranking.NONE, k }, signal);
  showResults();
}

/** Show the results in the selected view. */
export function showResults() {
  results.showResults(state.shown, selectedView(), addressOf);
}

/** Show the start page of the collection. */
export function showStart() {
  clearQuery();
  results.showOnly("start");
}

function clearQuery() {
  feedback.restore("");
  restart();
  state.query = state.shown = null;
  queryView.clear();
  grade.clear();
  overview.clear();
  byId("go").disabled = true;
  byId("columns").removeAttribute("aria-busy");
}
