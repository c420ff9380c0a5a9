// Running the search: with a new query, with judgements, or again after a change of the settings.

import * as anywhere from "./anywhere.js";
import { ApiError, search } from "./api.js";
import * as compare from "./compare.js";
import { byId } from "./dom.js";
import * as feedback from "./feedback.js";
import * as grouping from "./grouping.js";
import { withFileNames } from "./input_error.js";
import * as overview from "./overview.js";
import { callParts } from "./page_parts.js";
import * as queryView from "./query_view.js";
import * as recent from "./recent.js";
import * as reranking from "./reranking.js";
import * as results from "./results.js";
import { addressOf, currentAddress, searchParams, selectedView } from "./search_params.js";
import { keepQuery, restart, signal as runningSignal, state } from "./search_state.js";
import * as share from "./share.js";

const COMPARED_DEPTH = 5; // times k: depth of the original list in which moves are looked up

/** Search with a new query, as a new history entry. */
export function startSearch(query) {
  feedback.restore(null);
  if (query.image) history.pushState(null, "", addressOf(query.image, query.region));
  else history.pushState({ file: keepQuery(query) }, "", addressOf());
  state.query = query;
  feedback.show();
  run();
}

/** Show that files cannot be searched with. */
export function showInputError(error) {
  clearQuery();
  results.showError(error);
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
  searchRound(feedback.commit(history.state));
}

/** Search again without the judgements of one round, as a new history entry. */
export function undoRound(index) {
  searchRound(feedback.undo(history.state, index));
}

function searchRound(entry) {
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
  overview.clear();
  callParts("clear");
  callParts("answer", null);
  byId("go").disabled = false;
  byId("whole").hidden = !query.region;
  anywhere.show(query);
  results.showWaiting(Math.min(params.k, 20));
  try {
    const picture = queryView.show(signal);
    picture.catch(() => {}); // its errors are handled below, after the results
    const after = await search(query, params, signal);
    showAnswer(after, params);
    const title = await picture;
    if (signal.aborted) return;
    if (query.text) return recent.add(query, title, null);
    queryView.describe(after.query);
    recent.add(query, title, byId("picture"));
    for (const shown of callParts("show", { query, answer: after, addressOf, signal })) {
      shown.catch(() => {}); // results are useful without grades, and without earlier studies
    }
    if (after.results.length && params.rerank !== "none") await loadOriginalOrder(params, signal);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    state.shown = null;
    overview.clear();
    if (error instanceof ApiError && query.file) error.message = withFileNames(error.message, query);
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
  state.shown = { after, before: null, params };
  showResults();
  callParts("answer", after);
  overview.show(after);
  results.scrollToResults();
}

/** Load the order without re-ranking, to show what moved. */
async function loadOriginalOrder(params, signal) {
  const k = Math.min(Number(byId("k").max), COMPARED_DEPTH * params.k);
  state.shown.before = await search(state.query, { ...params, ...reranking.NONE, k }, signal);
  showResults();
}

/** Show more of the group of a result, in the list before re-ranking or in the usual one. */
export async function showMore(image, inBefore) {
  const { after, before, params } = state.shown;
  const hit = (inBefore ? before : after).results.find(({ image_id }) => image_id === image);
  const signal = runningSignal();
  try {
    await grouping.loadMembers(hit, state.query, inBefore ? { ...params, ...reranking.NONE } : params, signal);
  } catch (error) {
    if (!signal.aborted) results.showError(error);
    return;
  }
  if (signal.aborted) return;
  showResults();
  const first = hit.members[0]?.image_id ?? image;
  [...byId("columns").querySelectorAll(".card")].find((card) => card.dataset.image === first)?.focus();
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
  feedback.restore(null);
  restart();
  state.query = state.shown = null;
  anywhere.show(null);
  queryView.clear();
  overview.clear();
  callParts("clear");
  byId("go").disabled = true;
  byId("columns").removeAttribute("aria-busy");
}
