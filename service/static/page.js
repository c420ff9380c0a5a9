// The page: what the reader does, and what is shown then.

import * as address from "./address.js";
import { standIn } from "./answers.js";
import * as collection from "./collection.js";
import * as compare from "./compare.js";
import { Cropper } from "./crop.js";
import * as drop from "./drop.js";
import * as feedback from "./feedback.js";
import * as filters from "./filters.js";
import * as grade from "./grade.js";
import * as keyboard from "./keyboard.js";
import * as outcome from "./outcome.js";
import * as recent from "./recent.js";
import { Problem, pageOf, record, render, search } from "./service.js";
import * as share from "./share.js";
import * as theme from "./theme.js";
import * as viewer from "./viewer.js";
import { Windowing } from "./windowing.js";

const at = (id) => document.getElementById(id);
const LOOKED_THROUGH = 5; // times k: how far down the list before re-ranking moves are followed
const defaults = { rerank: at("rerank").value, k: at("k").value, view: "after" };

let query = null; // {image} of the collection, or {file, frame, window} of the reader; with a region or without
let shown = null; // {after, before, k}: the answers, those without re-ranking once they are there, how many
let drawn = null; // the picture of a file as it was last rendered
let running = new AbortController();
const files = []; // queries by file, for the way back

const cropper = new Cropper(at("drop"), at("region"), at("crop"), (region) => take({ ...query, region }));
const windowing = new Windowing(preview, (window) => take({ ...query, window }));

function wanted() {
  return { k: Number(at("k").value), rerank: at("rerank").value, where: filters.read(), feedback: feedback.sent() };
}

function view() {
  return document.querySelector("input[name=view]:checked").value;
}

/** The present search's address, with what was judged. */
function addressHere() {
  return addressOf(query?.image, query?.region, feedback.inAddress());
}

function addressOf(image, region, said) {
  const { rerank, k, where } = wanted();
  return address.write({
    collection: collection.current(),
    image,
    region: region?.join(","),
    rerank: rerank === defaults.rerank ? "" : rerank,
    k: String(k) === defaults.k ? "" : k,
    where: where.join(";"),
    said,
    view: view() === defaults.view ? "" : view(),
  });
}

// Searching

/** Search with another query, and make it an address of its own. */
function take(next) {
  feedback.restore("");
  if (next.image) {
    history.pushState(null, "", addressOf(next.image, next.region));
  } else {
    files.push(next);
    history.pushState({ file: files.length - 1 }, "", addressOf());
  }
  query = next;
  at("frame").value = next.frame ?? 1;
  feedback.show();
  run();
}

/** Search again with what the reader judged: one more round, and an address of its own. */
function learn() {
  if (!query || at("learn").disabled) return;
  const state = feedback.commit(history.state);
  history.pushState(state, "", addressHere());
  feedback.show();
  run();
}

/** Search again with the same query: the settings have changed. */
function again() {
  if (!query) {
    history.replaceState(null, "", addressOf());
    return;
  }
  if (query.file) {
    const frame = Number(at("frame").value) || 1;
    if (frame !== query.frame) Object.assign(query, { frame, region: null, window: null });
  }
  history.replaceState(history.state, "", addressHere());
  run();
}

async function run() {
  if (!query || !at("query").reportValidity()) return;
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const asked = wanted();
  compare.close();
  share.clear();
  grade.clear();
  at("go").disabled = false;
  at("whole").hidden = !query.region;
  outcome.wait(Math.min(asked.k, 20));
  try {
    const seen = see(signal);
    seen.catch(() => {}); // told of below, after the answers
    const after = await search(query, asked, signal);
    if (after.results.length) {
      shown = { after, before: null, k: asked.k };
      showAnswers();
      outcome.reach();
    } else {
      shown = null;
      outcome.nothing(asked.where);
    }
    const title = await seen;
    if (signal.aborted) return;
    describe(after.query);
    recent.add(query, title, at("picture"));
    grade.show(query, addressOf, signal).catch(() => {}); // the answers do without
    if (after.results.length && asked.rerank !== "none") await lookBack(asked, signal);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    shown = null;
    outcome.problem(error);
  } finally {
    if (!signal.aborted) at("columns").removeAttribute("aria-busy");
  }
}

/** The order before re-ranking, to say what moved. */
async function lookBack(asked, signal) {
  const k = Math.min(Number(at("k").max), LOOKED_THROUGH * asked.k);
  shown.before = await search(query, { ...asked, k, rerank: "none", feedback: [] }, signal);
  showAnswers();
}

function showAnswers() {
  outcome.answers(shown, view(), addressOf);
}

/** Show the query's picture; its title. */
async function see(signal) {
  const current = query;
  if (current.image) {
    windowing.set(null);
    const found = await record(current.image, signal);
    const title = found.labels.label ?? `image ${current.image.slice(0, 8)}`;
    const source = collection.imageAddress(current.image, "/picture");
    const there = await viewer.show(source, `The query image, ${title}`).catch(() => null);
    if (signal.aborted) return title;
    if (!there) viewer.gone();
    crop(there && { width: found.width, height: found.height }, current.region); // regions are of the image itself
    return current.region ? `Part of ${title}` : title;
  }
  const { file, frame, window } = current;
  const known = drawn && drawn.file === file && drawn.frame === frame && String(drawn.window) === String(window);
  if (!known) drawn = { file, frame, window, ...(await render({ file, frame, window }, signal)) };
  await viewer.show(drawn.blob, "The query image").catch(() => viewer.gone());
  if (signal.aborted) return "";
  windowing.set(drawn.windowing);
  crop(drawn.size, current.region);
  return current.region ? "Part of your image" : "Your image";
}

function crop(size, region) {
  cropper.set(size, region ?? null);
  at("crop").disabled = !size;
}

/** The picture in another window, while a slider moves. */
async function preview(window) {
  const { file, frame } = query;
  try {
    const { blob } = await render({ file, frame, window }, running.signal);
    if (query.file === file) await viewer.show(blob, "The query image");
  } catch (error) {
    if (error instanceof Problem) outcome.problem(error);
  }
}

function describe(facts) {
  const frame = facts.frame ? `, frame ${facts.frame}` : "";
  const what = query.image ? `Image ${query.image.slice(0, 8)} of the collection` : "Your image";
  const format = ` · ${facts.format.toUpperCase()}`;
  const [x, y, width, height] = query.region ?? [];
  const size = query.region ? `region ${width} × ${height} at ${x}, ${y}` : `${facts.width} × ${facts.height}`;
  viewer.caption(`${what} · ${size}${format}${frame}`);
  at("frame-field").hidden = !(query.file && facts.frame);
}

function searchFile(file) {
  const most = Number(at("query").dataset.maxUploadBytes);
  at("frame").value = 1;
  if (file.size > most) {
    empty();
    outcome.problem(new Problem("The image is too large", `At most ${Math.floor(most / 2 ** 20)} MiB are taken.`));
    return;
  }
  take({ file, frame: 1, window: null, region: null });
}

function searchImage(image) {
  compare.close();
  take({ image });
}

/** Search again with a query of before, of this collection or another. */
async function takeUp(next) {
  const there = !next.image || (await enter(next.collection));
  if (there) take(next);
}

/** Show another collection, and say whether it is there; the reader may have gone on meanwhile. */
async function enter(name) {
  const wanted = collection.meant(name);
  if (wanted === collection.current()) return true;
  running.abort();
  running = new AbortController();
  const { signal } = running;
  try {
    const page = await pageOf(wanted, signal);
    if (signal.aborted) return false;
    collection.wear(wanted, page);
  } catch (error) {
    if (signal.aborted) return false;
    at("collection").value = collection.current();
    at("columns").removeAttribute("aria-busy");
    compare.close();
    outcome.problem(error);
    return false;
  }
  for (const image of document.querySelectorAll(".examples img")) standIn(image);
  return true;
}

/** Search another collection: with the reader's image, while one of the collection stays behind. */
async function change() {
  if (!(await enter(at("collection").value))) return;
  feedback.restore("");
  filters.write([]);
  query = query?.file ? query : null;
  history.pushState(query && { file: files.indexOf(query) }, "", addressOf());
  if (query) run();
  else begin();
}

/** The collection as it is first seen. */
function begin() {
  empty();
  outcome.only("start");
}

/** No query. */
function empty() {
  feedback.restore("");
  running.abort();
  query = shown = null;
  viewer.clear();
  grade.clear();
  crop(null);
  windowing.set(null);
  at("frame-field").hidden = true;
  at("whole").hidden = true;
  at("go").disabled = true;
  at("columns").removeAttribute("aria-busy");
}

/** Do what the address says: on loading, and when the reader goes back. */
async function follow() {
  const asked = address.read();
  if (!(await enter(asked.collection))) return;
  at("rerank").value = asked.rerank ?? defaults.rerank;
  if (!at("rerank").value) at("rerank").value = defaults.rerank;
  at("k").value = asked.k ?? defaults.k;
  filters.write((asked.where ?? "").split(";").map((text) => text.trim()).filter(Boolean));
  const views = [...document.querySelectorAll("input[name=view]")];
  (views.find((radio) => radio.value === asked.view) ?? views.find((radio) => radio.value === defaults.view)).checked = true;
  explain();
  const region = asked.region?.split(",").map(Number);
  query = asked.image ? { image: asked.image, region } : (files[history.state?.file] ?? null);
  if (query?.file) at("frame").value = query.frame;
  feedback.restore(history.state?.said ?? asked.said);
  if (query) run();
  else begin();
}

// The reader's doing

function explain() {
  at("explanation").textContent = at("rerank").selectedOptions[0].dataset.explanation;
}

/** The query's picture, as it is compared with: the region, where one was searched with. */
async function openComparison(card, withMetadata) {
  let source = at("picture").src;
  if (query.region && query.image) source = collection.imageAddress(query.image, "/picture", { region: query.region });
  else if (query.region) {
    const part = await render(query, running.signal).catch(() => null);
    if (!part) return;
    source = URL.createObjectURL(part.blob); // small, and gone with the page
  }
  compare.open(card, { source, words: at("caption").textContent }, addressOf, withMetadata);
}

function setView(name) {
  if (at("views").hidden || at("bar").hidden) return;
  document.querySelector(`input[name=view][value=${name}]`).checked = true;
  changeView();
}

function changeView() {
  history.replaceState(history.state, "", addressHere());
  if (shown) showAnswers();
}

at("rerank").addEventListener("change", () => {
  explain();
  again();
});
at("query").addEventListener("submit", (event) => {
  event.preventDefault();
  filters.show();
  again();
});
at("views").addEventListener("change", changeView);
at("retry").addEventListener("click", () => (query ? run() : location.reload()));
at("unfilter").addEventListener("click", () => {
  filters.write([]);
  again();
});
at("share").addEventListener("click", () => share.share(!query.image));
at("crop").addEventListener("click", () => cropper.begin());
at("whole").addEventListener("click", () => whole());

function whole() {
  if (!query?.region) return;
  const { region, ...rest } = query;
  take(query.image ? { image: query.image } : rest);
}

document.addEventListener("click", (event) => {
  const act = event.target.closest("[data-act]");
  if (act) {
    const card = act.parentElement.querySelector(".card");
    if (act.dataset.act === "search") searchImage(card.dataset.image);
    else openComparison(card, true);
    return;
  }
  const link = event.target.closest("a[data-image]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  if (link.closest("#columns")) openComparison(link);
  else searchImage(link.dataset.image);
});

at("collection")?.addEventListener("change", change);

drop.install(searchFile, takeUp);
feedback.install(learn);
filters.install(again);
recent.install(takeUp);
keyboard.install(
  {
    o: () => at("file").click(),
    c: () => cropper.begin(),
    w: whole,
    r: () => at("rerank").focus(),
    f: () => (at("add-filter") ?? at("where")).focus(),
    k: () => at("k").focus(),
    1: () => setView("before"),
    2: () => setView("after"),
    3: () => setView("both"),
    g: () => document.querySelector("#columns .card, #start:not([hidden]) .card")?.focus(),
    a: () => !at("bar").hidden && at("share").click(),
    l: theme.next,
    j: learn,
    b: feedback.back,
  },
  {
    s: (card) => searchImage(card.dataset.image),
    i: (card) => card.closest("#columns") && openComparison(card, true),
    y: (card) => card.closest("#columns") && feedback.mark(card.dataset.image, "relevant"),
    n: (card) => card.closest("#columns") && feedback.mark(card.dataset.image, "irrelevant"),
  },
);
addEventListener("popstate", follow);
for (const image of document.querySelectorAll(".examples img")) standIn(image);
follow();
