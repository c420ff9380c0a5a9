// The gallery: connects filters, order and address with the grid of images.

import { byId, element } from "../dom.js";
import { tr, trn } from "../translate.js";
import { chosenIds } from "./chosen_images.js";
import { saveAllRecords, saveTable } from "./export_files.js";
import { Facets } from "./facets.js";
import * as filters from "./filter_state.js";
import { ImagePages, PAGE } from "./image_pages.js";
import * as large from "./large_view.js";
import { chosenImages, images, labelKeys } from "./requests.js";
import { Selection } from "./selection.js";
import * as bar from "./selection_bar.js";
import * as seriesView from "./series_view.js";
import { Tiles } from "./tiles.js";

const collection = byId("gallery").dataset.collection;
let state = filters.read(location.search);
let chosen = chosenOfAddress(); // ids of images from the map; null for all images
let running = new AbortController();
let pages = new ImagePages(() => Promise.resolve({ items: [], next: null }));
const selection = new Selection();

const facets = new Facets((where) => change({ where }));
const tiles = new Tiles(() => ({ pages, selection, sort: state.sort }), { onSelect: showSelection, needMore: () => pages.failed || loadMore(), onOpen: openLarge });

const total = (count) => trn("{count} image", "{count} images", count);

/** The image of the grid before or after another. */
const beside = (item, step) => pages.items[pages.items.indexOf(item) + step];

function openLarge(item) {
  large.openImage(item, (step) => beside(item, step));
}

function chosenOfAddress() {
  return new URLSearchParams(location.search).has("chosen") ? chosenIds() : null;
}

/** Show something else, as a new history entry. */
function change(part) {
  state = { ...state, ...part };
  chosen = null;
  history.pushState(null, "", filters.write(state, collection));
  show();
}

/** Show the images of the state from the first one. */
async function show() {
  running.abort();
  running = new AbortController();
  pages.stop();
  const { where, sort } = state;
  const ofImages = state.view === "images";
  seriesView.prepare(state);
  pages = new ImagePages((cursor, signal) => (chosen ? chosenImages(chosen, cursor, PAGE) : images({ where, sort, cursor, limit: PAGE }, signal)));
  for (const part of [byId("filters"), byId("sort").parentElement]) part.hidden = Boolean(chosen);
  selection.clear();
  showChips();
  showSelection();
  tiles.reset();
  byId("none").hidden = true;
  byId("grid").setAttribute("aria-busy", "true");
  const { signal } = running;
  const first = ofImages ? loadMore : () => seriesView.show(state, signal);
  await Promise.all([attempt(first), refreshCounts()]);
}

/** Count again what the conditions leave. */
function refreshCounts() {
  const { signal } = running;
  return attempt(async () => {
    const [{ images: number }] = await Promise.all([labelKeys(state.where, signal), facets.show(state.where, signal)]);
    if (signal.aborted) return;
    byId("total").textContent = total(chosen ? chosen.length : number);
    byId("export-all").hidden = !number || Boolean(chosen);
    fillKeys();
  });
}

async function loadMore() {
  if (state.view !== "images") return;
  const mine = pages;
  const failed = await mine.more().then(() => null, (error) => error);
  if (mine !== pages) return;
  byId("grid").removeAttribute("aria-busy");
  if (failed) {
    showProblem(failed); // and the grid is not drawn, which would ask again at once
    return;
  }
  byId("more").hidden = pages.done;
  byId("none").hidden = pages.items.length > 0 || !pages.done;
  byId("loaded").textContent = pages.done ? "" : tr("{count} loaded", { count: pages.items.length });
  tiles.draw();
}

/** Run an action; its error is shown in a part of a dialog, or on the page. */
async function attempt(action, part = null) {
  try {
    if (part) part.hidden = true;
    else byId("problem").hidden = true;
    await action();
  } catch (error) {
    if (error.name === "AbortError") return;
    showProblem(error, part);
  }
}

function showProblem(error, part = null) {
  const shown = part ?? byId("problem");
  shown.querySelector("p").textContent = error.message;
  shown.hidden = false;
}

function showSelection() {
  bar.show(selection);
  tiles.draw();
}

function showChips() {
  const chips = state.where.map((condition) => {
    const chip = element("button", "chip", condition, element("span", "", " ×"));
    chip.type = "button";
    chip.setAttribute("aria-label", tr("Remove the filter {condition}", { condition }));
    chip.addEventListener("click", () => {
      change({ where: state.where.filter((each) => each !== condition) });
      (byId("chips").querySelector("button") ?? byId("sort")).focus();
    });
    return element("li", "", chip);
  });
  if (chosen) {
    const chip = element("button", "chip", tr("Chosen on the map"), element("span", "", " ×"));
    chip.type = "button";
    chip.setAttribute("aria-label", tr("Show all images again"));
    chip.addEventListener("click", () => change({}));
    chips.push(element("li", "", chip));
  }
  byId("chips").replaceChildren(...chips);
  byId("chips").hidden = !chips.length;
  byId("unfilter").hidden = !chips.length;
}

/** Offer the label keys for sorting and labelling. */
function fillKeys() {
  const options = facets.keys.flatMap((key) => [new Option(tr("{key}, ascending", { key }), `label:${key}`), new Option(tr("{key}, descending", { key }), `-label:${key}`)]);
  byId("sort-labels").replaceChildren(...options);
  byId("sort").value = state.sort;
  byId("label-keys").replaceChildren(...facets.keys.map((key) => new Option(key)));
}

async function afterLabels(ids, labels) {
  pages.relabel(ids, labels);
  tiles.refresh();
  facets.forget();
  byId("done").textContent = trn("{count} image labelled.", "{count} images labelled.", ids.length);
  await refreshCounts();
}

async function afterDelete(ids) {
  pages.remove(ids);
  selection.drop(ids);
  byId("done").textContent = trn("{count} image deleted.", "{count} images deleted.", ids.length);
  tiles.reset();
  showSelection();
  byId("grid").focus();
  facets.forget();
  await Promise.all([refreshCounts(), loadMore()]);
}

byId("sort").addEventListener("change", () => change({ sort: byId("sort").value }));
byId("more").addEventListener("click", () => (state.view === "images" ? loadMore() : attempt(seriesView.more)));
byId("unfilter").addEventListener("click", () => change({ where: [] }));
byId("retry").addEventListener("click", show);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // another address would load the images again
  byId(state.view === "images" ? "grid" : "cards").focus();
});
byId("select-all").addEventListener("click", () => {
  selection.selectAll(pages.ids);
  showSelection();
  byId("grid").focus();
});
byId("export-csv").addEventListener("click", () => attempt(() => saveTable({ where: state.where, sort: state.sort })));
byId("export-json").addEventListener("click", () => attempt(async () => {
  await saveAllRecords(state, (number) => {
    byId("done").textContent = trn("{count} image read for the export.", "{count} images read for the export.", number);
  });
}));
byId("collection")?.addEventListener("change", ({ target }) => location.assign(`/gallery?${new URLSearchParams({ collection: target.value })}`));
if (matchMedia("(max-width: 900px)").matches) byId("filters").open = false; // above the images there
bar.install(() => ({ pages, selection }), { afterLabels, afterDelete, onSelect: showSelection, attempt });
seriesView.install(change);
large.install(() => {
  if (new URLSearchParams(location.search).has("study")) change({ study: "", series: "" });
  else if (state.view === "images") byId("grid").focus();
}, beside);
addEventListener("popstate", () => {
  state = filters.read(location.search);
  chosen = chosenOfAddress();
  show();
});
show();
