// The search page: connects the controls, the address and the results.

import * as address from "./address.js";
import { ApiError, loadPage, record, render, search } from "./api.js";
import * as collection from "./collection.js";
import * as compare from "./compare.js";
import { Cropper } from "./crop.js";
import { byId, replaceIfMissing } from "./dom.js";
import * as feedback from "./feedback.js";
import * as filters from "./filters.js";
import * as grade from "./grade.js";
import * as imageInput from "./image_input.js";
import * as keyboard from "./keyboard.js";
import * as overview from "./overview.js";
import * as queryPicture from "./query_picture.js";
import * as recent from "./recent.js";
import * as reranking from "./reranking.js";
import * as results from "./results.js";
import * as share from "./share.js";
import * as theme from "./theme.js";
import { Windowing } from "./windowing.js";

const COMPARED_DEPTH = 5; // times k: depth of the original list in which moves are looked up
const defaults = { k: byId("k").value, view: "after" };

let query = null; // {image} of the collection, {text}, or {file, frame, window} of the user; images may have a region
let shown = null; // {after, before, k}: results with re-ranking, without (once loaded), and their number
let rendered = null; // the last rendering of a file
let running = new AbortController();
const fileQueries = []; // and texts, which no address contains: for the browser's back button

const cropper = new Cropper(byId("drop"), byId("region"), byId("crop"), (region) => startSearch({ ...query, region }));
const windowing = new Windowing(preview, (window) => startSearch({ ...query, window }));

/** The search parameters of the controls; a search by text is not re-ranked. */
function searchParams() {
  const judgements = feedback.judgements();
  const params = { k: Number(byId("k").value), ...reranking.forSearch(judgements), where: filters.read(), feedback: judgements };
  return query?.text ? { ...params, ...reranking.NONE } : params;
}

function selectedView() {
  return document.querySelector("input[name=view]:checked").value;
}

/** The address of the current search, with its judgements. */
function currentAddress() {
  return addressOf(query?.image, query?.region, feedback.forAddress());
}

function addressOf(image, region, judgements) {
  const { k, where } = searchParams();
  return address.write({
    collection: collection.current(),
    image,
    region: region?.join(","),
    ...reranking.forAddress(),
    k: String(k) === defaults.k ? "" : k,
    where: where.join(";"),
    said: judgements,
    view: selectedView() === defaults.view ? "" : selectedView(),
  });
}

// Searching

/** Search with a new query, as a new history entry. */
function startSearch(next) {
  feedback.restore("");
  if (next.image) {
    history.pushState(null, "", addressOf(next.image, next.region));
  } else {
    fileQueries.push(next);
    history.pushState({ file: fileQueries.length - 1 }, "", addressOf());
  }
  query = next;
  byId("frame").value = next.frame ?? 1;
  feedback.show();
  run();
}

/** Search again with the user's judgements, as a new history entry. */
function searchWithJudgements() {
  if (!query || query.text || byId("learn").disabled) return;
  const state = feedback.commit(history.state);
  history.pushState(state, "", currentAddress());
  feedback.show();
  run();
}

/** Repeat the search after a change of the settings. */
function repeatSearch() {
  reranking.describe(feedback.judgements());
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

async function run() {
  reranking.describe(feedback.judgements());
  if (!query || !byId("query").reportValidity()) return;
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const params = searchParams();
  compare.close();
  share.clear();
  grade.clear();
  overview.clear();
  byId("go").disabled = false;
  byId("whole").hidden = !query.region;
  results.showWaiting(Math.min(params.k, 20));
  try {
    const picture = showQuery(signal);
    picture.catch(() => {}); // its errors are handled below, after the results
    const after = await search(query, params, signal);
    if (after.results.length) {
      shown = { after, before: null, k: params.k };
      showResults();
      overview.show(after);
      results.scrollToResults();
    } else {
      shown = null;
      results.showNoResults(params.where);
    }
    const title = await picture;
    if (signal.aborted) return;
    if (query.text) return;
    describe(after.query);
    recent.add(query, title, byId("picture"));
    grade.show(query, addressOf, signal).catch(() => {}); // results are useful without grades
    if (after.results.length && params.rerank !== "none") await loadOriginalOrder(params, signal);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    shown = null;
    overview.clear();
    results.showError(error);
  } finally {
    if (!signal.aborted) byId("columns").removeAttribute("aria-busy");
  }
}

/** Load the order without re-ranking, to show what moved. */
async function loadOriginalOrder(params, signal) {
  const k = Math.min(Number(byId("k").max), COMPARED_DEPTH * params.k);
  shown.before = await search(query, { ...params, ...reranking.NONE, k }, signal);
  showResults();
}

function showResults() {
  results.showResults(shown, selectedView(), addressOf);
}

/** Show the query's picture; resolves with its title. */
async function showQuery(signal) {
  const current = query;
  byId("columns").classList.toggle("by-text", Boolean(current.text));
  if (current.text) {
    byId("words").value = current.text;
    queryPicture.clear();
    queryPicture.caption(`Words · ${current.text}`);
    windowing.set(null);
    setRegion(null);
    byId("frame-field").hidden = true;
    return current.text;
  }
  if (current.image) {
    windowing.set(null);
    const { labels, width, height } = await record(current.image, signal);
    const title = labels.label ?? `image ${current.image.slice(0, 8)}`;
    const source = collection.imageAddress(current.image, "/picture");
    const size = await queryPicture.show(source, `The query image, ${title}`).catch(() => null);
    if (signal.aborted) return title;
    if (!size) queryPicture.showMissing();
    setRegion(size && { width, height }, current.region); // in pixels of the image, not of its picture
    return current.region ? `Part of ${title}` : title;
  }
  const { file, frame, window } = current;
  const isCurrent = rendered?.file === file && rendered.frame === frame && String(rendered.window) === String(window);
  if (!isCurrent) rendered = { file, frame, window, ...(await render({ file, frame, window }, signal)) };
  await queryPicture.show(rendered.blob, "The query image").catch(() => queryPicture.showMissing());
  if (signal.aborted) return "";
  windowing.set(rendered.windowing);
  setRegion(rendered.size, current.region);
  return current.region ? "Part of your image" : "Your image";
}

function setRegion(size, region) {
  cropper.set(size, region ?? null);
  byId("crop").disabled = !size;
}

/** Show the picture in another window while a slider moves. */
async function preview(window) {
  const { file, frame } = query;
  try {
    const { blob } = await render({ file, frame, window }, running.signal);
    if (query.file === file) await queryPicture.show(blob, "The query image");
  } catch (error) {
    if (error instanceof ApiError) results.showError(error);
  }
}

/** Caption the picture; info: the description of the query in the response. */
function describe(info) {
  const frame = info.frame ? `, frame ${info.frame}` : "";
  const name = query.image ? `Image ${query.image.slice(0, 8)} of the collection` : "Your image";
  const format = ` · ${info.format.toUpperCase()}`;
  const [x, y, width, height] = query.region ?? [];
  const size = query.region ? `region ${width} × ${height} at ${x}, ${y}` : `${info.width} × ${info.height}`;
  queryPicture.caption(`${name} · ${size}${format}${frame}`);
  byId("frame-field").hidden = !(query.file && info.frame);
}

function searchFile(file) {
  const maxBytes = Number(byId("query").dataset.maxUploadBytes);
  byId("frame").value = 1;
  if (file.size > maxBytes) {
    clearQuery();
    results.showError(new ApiError("The image is too large", `The limit is ${Math.floor(maxBytes / 2 ** 20)} MiB.`));
    return;
  }
  startSearch({ file, frame: 1, window: null, region: null });
}

function searchImage(image) {
  compare.close();
  startSearch({ image });
}

/** Search with an earlier query, of this collection or another. */
async function openQuery(next) {
  const available = !next.image || (await openCollection(next.collection));
  if (available) startSearch(next);
}

/** Show another collection; resolves with false if that fails or the user has started something else meanwhile. */
async function openCollection(name) {
  const target = collection.nameOrDefault(name);
  if (target === collection.current()) return true;
  running.abort();
  running = new AbortController();
  const { signal } = running;
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
  for (const image of document.querySelectorAll(".examples img")) replaceIfMissing(image);
  return true;
}

/** Search another collection with the user's file; a query image of the old collection is dropped. */
async function changeCollection() {
  if (!(await openCollection(byId("collection").value))) return;
  feedback.restore("");
  filters.write([]);
  query = query?.file ? query : null;
  history.pushState(query && { file: fileQueries.indexOf(query) }, "", addressOf());
  if (query) run();
  else showStart();
}

/** Show the start page of the collection. */
function showStart() {
  clearQuery();
  results.showOnly("start");
}

function clearQuery() {
  feedback.restore("");
  running.abort();
  query = shown = null;
  queryPicture.clear();
  grade.clear();
  overview.clear();
  setRegion(null);
  windowing.set(null);
  byId("frame-field").hidden = true;
  byId("whole").hidden = true;
  byId("go").disabled = true;
  byId("columns").removeAttribute("aria-busy");
}

/** Run the search of the address, on loading and on history navigation. */
async function openAddress() {
  const params = address.read();
  if (!(await openCollection(params.collection))) return;
  reranking.open(params.rerank, params.parameters);
  byId("k").value = params.k ?? defaults.k;
  filters.write((params.where ?? "").split(";").map((text) => text.trim()).filter(Boolean));
  const views = [...document.querySelectorAll("input[name=view]")];
  (views.find((radio) => radio.value === params.view) ?? views.find((radio) => radio.value === defaults.view)).checked = true;
  const region = params.region?.split(",").map(Number);
  query = params.image ? { image: params.image, region } : (fileQueries[history.state?.file] ?? null);
  if (query?.file) byId("frame").value = query.frame;
  feedback.restore(history.state?.said ?? params.said);
  reranking.describe(feedback.judgements());
  if (query) run();
  else showStart();
}

// User actions

/** Compare a result with the query, or with its region if there is one. */
async function openComparison(card, withMetadata) {
  let source = query.text ? null : byId("picture").src;
  if (query.region && query.image) source = collection.imageAddress(query.image, "/picture", { region: query.region });
  else if (query.region) {
    const part = await render(query, running.signal).catch(() => null);
    if (!part) return;
    source = URL.createObjectURL(part.blob); // small; released with the page
  }
  compare.open(card, { source, caption: byId("caption").textContent }, addressOf, withMetadata);
}

function setView(name) {
  if (byId("views").hidden || byId("bar").hidden) return;
  document.querySelector(`input[name=view][value=${name}]`).checked = true;
  changeView();
}

function changeView() {
  history.replaceState(history.state, "", currentAddress());
  if (shown) showResults();
}

byId("query").addEventListener("submit", (event) => {
  event.preventDefault();
  filters.show();
  repeatSearch();
});
byId("views").addEventListener("change", changeView);
byId("retry").addEventListener("click", () => (query ? run() : location.reload()));
byId("unfilter").addEventListener("click", () => {
  filters.write([]);
  repeatSearch();
});
byId("share").addEventListener("click", () => share.share(!query.image));
byId("text-field").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault(); // of the form, which repeats the search before
  const text = byId("words").value.trim();
  if (text) startSearch({ text });
});
byId("crop").addEventListener("click", () => cropper.begin());
byId("whole").addEventListener("click", searchWholeImage);

function searchWholeImage() {
  if (!query?.region) return;
  const { region, ...rest } = query;
  startSearch(query.image ? { image: query.image } : rest);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-act]");
  if (button) {
    const card = button.parentElement.querySelector(".card");
    if (button.dataset.act === "search") searchImage(card.dataset.image);
    else openComparison(card, true);
    return;
  }
  const link = event.target.closest("a[data-image]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  if (link.closest("#columns")) openComparison(link);
  else searchImage(link.dataset.image);
});

byId("collection")?.addEventListener("change", changeCollection);

imageInput.install(searchFile, openQuery);
feedback.install(searchWithJudgements);
filters.install(repeatSearch);
overview.install();
reranking.install(repeatSearch);
recent.install(openQuery);
keyboard.install(
  {
    o: () => byId("file").click(),
    c: () => cropper.begin(),
    w: searchWholeImage,
    r: () => byId("rerank").focus(),
    f: () => (byId("add-filter") ?? byId("where")).focus(),
    k: () => byId("k").focus(),
    1: () => setView("before"),
    2: () => setView("after"),
    3: () => setView("both"),
    g: () => document.querySelector("#columns .card, #start:not([hidden]) .card")?.focus(),
    a: () => !byId("bar").hidden && byId("share").click(),
    l: theme.next,
    j: searchWithJudgements,
    b: feedback.back,
  },
  {
    s: (card) => searchImage(card.dataset.image),
    i: (card) => card.closest("#columns") && openComparison(card, true),
    y: (card) => card.closest("#columns") && !query.text && feedback.mark(card.dataset.image, "relevant"),
    n: (card) => card.closest("#columns") && !query.text && feedback.mark(card.dataset.image, "irrelevant"),
  },
);
addEventListener("popstate", openAddress);
for (const image of document.querySelectorAll(".examples img")) replaceIfMissing(image);
openAddress();
