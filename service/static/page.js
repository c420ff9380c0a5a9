// The search page: connects the controls and the keyboard with what they do.

import * as anywhere from "./anywhere.js";
import * as compare from "./compare.js";
import { byId } from "./dom.js";
import * as feedback from "./feedback.js";
import * as filters from "./filters.js";
import * as grouping from "./grouping.js";
import * as imageInput from "./image_input.js";
import * as keyboard from "./keyboard.js";
import { changeCollection, openAddress, openQuery, replaceMissingExamples } from "./navigation.js";
import * as otherSites from "./other_sites.js";
import * as overview from "./overview.js";
import { callParts } from "./page_parts.js";
import * as tools from "./picture_tools.js";
import * as queryView from "./query_view.js";
import * as recent from "./recent.js";
import * as reranking from "./reranking.js";
import * as results from "./results.js";
import {
  repeatSearch,
  run,
  searchWholeImage,
  searchWithJudgements,
  showInputError,
  showMore,
  showResults,
  startSearch,
  undoRound,
} from "./run_search.js";
import { currentAddress } from "./search_params.js";
import { state } from "./search_state.js";
import * as share from "./share.js";
import * as takeAway from "./take_away.js";
import * as theme from "./theme.js";

let repeating = 0; // timer of a search after a change of the number of results

function searchImage(image) {
  compare.close();
  startSearch({ image });
}

/** Compare a result with the query. */
function openComparison(card, withMetadata) {
  compare.open(card, { caption: byId("caption").textContent, size: queryView.sizeOf(), search: searchImage, withMetadata });
}

function setView(name) {
  if (byId("views").hidden || byId("bar").hidden) return;
  document.querySelector(`input[name=view][value=${name}]`).checked = true;
  changeView();
}

function changeView() {
  history.replaceState(history.state, "", currentAddress());
  if (state.shown) showResults();
}

function focusSetting(id) {
  byId("settings").open = true; // it is closed at first on narrow screens
  byId(id).focus();
}

/** Search again after an error. */
function retry() {
  if (!state.query) return location.reload();
  run();
}

byId("query").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(repeating);
  filters.show();
  repeatSearch();
});
byId("k").addEventListener("change", () => (repeating = setTimeout(repeatSearch))); // Enter submits the form after that
byId("views").addEventListener("change", changeView);
byId("retry").addEventListener("click", retry);
byId("unfilter").addEventListener("click", () => {
  filters.write([]);
  repeatSearch();
});
byId("share").addEventListener("click", () => share.share(!state.query.image));
byId("text-field").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault(); // of the form, which repeats the search before
  const text = byId("words").value.trim();
  if (text) startSearch({ text });
});
byId("whole").addEventListener("click", searchWholeImage);
byId("collection")?.addEventListener("change", changeCollection);

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button) {
    const card = button.parentElement.querySelector(".card");
    if (button.dataset.act === "search") searchImage(card.dataset.image);
    else openComparison(card, true);
    return;
  }
  const more = event.target.closest("[data-more]");
  if (more) showMore(more.dataset.more, more.closest(".column").getAttribute("aria-label") === results.BEFORE);
  const link = event.target.closest("a[data-image]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  if (link.closest("[data-results]")) openComparison(link);
  else searchImage(link.dataset.image);
});

queryView.install(startSearch, repeatSearch);
imageInput.install(startSearch, openQuery, showInputError);
feedback.install(searchWithJudgements, undoRound);
filters.install(repeatSearch);
grouping.install(repeatSearch);
anywhere.install(repeatSearch);
otherSites.install(repeatSearch);
overview.install();
reranking.install(repeatSearch);
recent.install(openQuery);
takeAway.install();
callParts("install", { showError: results.showError });
keyboard.install(
  {
    o: () => byId("file").click(),
    c: queryView.beginCrop,
    w: searchWholeImage,
    r: () => focusSetting("rerank"),
    f: () => focusSetting(byId("add-filter") ? "add-filter" : "where"),
    k: () => focusSetting("k"),
    1: () => setView("before"),
    2: () => setView("after"),
    3: () => setView("both"),
    ...Object.fromEntries([0, 1, 2, 3, 4].map((index) => [index + 4, () => queryView.choosePreset(index)])),
    g: () => document.querySelector("#columns .card, #start:not([hidden]) .card")?.focus(),
    a: () => !byId("bar").hidden && byId("share").click(),
    l: theme.next,
    ...tools.KEYS,
    ...Object.assign({}, ...callParts("keys")),
    j: searchWithJudgements,
    b: feedback.back,
  },
  {
    s: (card) => searchImage(card.dataset.image),
    i: (card) => card.closest("[data-results]") && openComparison(card, true),
    v: (card) => card.parentElement.querySelector(".in-viewer")?.click(),
    y: (card) => card.closest("[data-results]") && !state.query.text && feedback.mark(card.dataset.image, "relevant"),
    n: (card) => card.closest("[data-results]") && !state.query.text && feedback.mark(card.dataset.image, "irrelevant"),
  },
);
addEventListener("popstate", openAddress);
if (matchMedia("(max-width: 560px)").matches) byId("settings").open = false; // above the images there
replaceMissingExamples();
Promise.all(callParts("open")).then(openAddress, results.showError);
