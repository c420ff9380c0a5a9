// What matches between the query and a result: on the card under the pointer or focus, and in the comparison.

import { form, request } from "../api.js";
import { current } from "../collection.js";
import { byId, element } from "../dom.js";
import { addPart } from "../page_parts.js";
import { state } from "../search_state.js";
import { remember, remembered } from "../theme.js";
import { tr } from "../translate.js";
import { Explanations } from "./explanations.js";
import { cover, uncover } from "./overlay.js";
import { heatRange, paintEdges, paintHeat } from "./paint.js";
import { bars } from "./parts.js";

const STORAGE_KEY = "explain";

const explanations = new Explanations(load);
const MOST_PIXELS = 256; // of a side; maps are coarse

let shownOn = null; // the card that is explained
let compared = null; // {view, button, box, shares}: the reading view, and what is added to it

const isOn = () => byId("explain").getAttribute("aria-pressed") === "true";

/** The kind of the collection's explanations: "places", "parts", or "" for none. */
const kind = () => byId("facts").querySelector("[data-explained]")?.dataset.explained ?? "";

/** True if the results of the query can be explained: not of words or several images. */
const isExplained = () => Boolean(kind() && state.query && (state.query.image || state.query.file) && !state.query.files);

async function load(query, ids) {
  const collection = current();
  let options;
  if (query.image) {
    const fields = { image_id: query.image, answers: ids, ...(query.region && { region: query.region }), ...(collection && { collection }) };
    options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) };
  } else {
    const body = form(query);
    for (const id of ids) body.append("answers", id);
    if (collection) body.set("collection", collection);
    options = { method: "POST", body };
  }
  return (await request("/v1/explain", options)).json();
}

/** The explanation of a card; null if there is none or another is asked for meanwhile. */
async function explanationOf(card, isCurrent) {
  const images = [...card.closest(".grid").querySelectorAll(".card")].map(({ dataset }) => dataset.image);
  const explanation = await explanations.of(state.query, card.dataset.image, images);
  return isCurrent() && explanation && !explanation.problem ? explanation : null;
}

async function showOn(card) {
  if (shownOn === card) return;
  hide();
  if (!card || !isOn() || !isExplained()) return;
  shownOn = card;
  const explanation = await explanationOf(card, () => shownOn === card);
  if (!explanation) return;
  const [picture, query] = [card.querySelector(".film img"), byId("picture")];
  if (explanation.kind === "places") {
    const range = heatRange(explanation);
    cover(picture, (canvas) => paintHeat(canvas, explanation.answer_map, range));
    cover(query, (canvas) => paintHeat(canvas, explanation.query_map, range));
    return;
  }
  if (explanation.answer_edges) cover(picture, (canvas) => paintEdges(canvas, explanation.answer_edges));
  if (explanation.query_edges && !state.query.region) cover(query, (canvas) => paintEdges(canvas, explanation.query_edges));
  card.querySelector(".film")?.append(bars(explanation.shares));
}

function hide() {
  if (!shownOn) return;
  uncover(shownOn.querySelector(".film img"));
  shownOn.querySelector(".part-bars")?.remove();
  uncover(byId("picture"));
  shownOn = null;
}

/** Add the switch and what it shows to the reading view. */
function addTo(view) {
  const button = element("button", "button small", tr("Show what matches"));
  Object.assign(button, { type: "button", title: "H" });
  button.addEventListener("click", toggle);
  const opacity = Object.assign(element("input", ""), { type: "range", min: 0, max: 100, value: 100 });
  opacity.addEventListener("input", () => {
    for (const { viewer } of view.panes) Object.assign(viewer, { overlayOpacity: opacity.value / 100 }).redraw();
  });
  const shares = element("div", "part-shares");
  const hint = element("p", "hint", tr("It shows what the search compares, and is no diagnosis."));
  const box = element("section", "explanation", element("label", "", tr("Overlay"), " ", opacity), shares, hint);
  box.setAttribute("aria-label", tr("What matches"));
  view.switches.append(button);
  view.extras.append(box);
  view.dialog.addEventListener("cbir-slice", showInReading); // maps are of the images that were compared
  view.dialog.addEventListener("cbir-ready", showInReading);
  view.dialog.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "h" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input")) return;
    event.preventDefault();
    event.stopPropagation();
    toggle();
  });
  return { view, button, box, shares };
}

/** A canvas in the form of a viewer's picture, painted by paint(canvas). */
function overlayOf({ picture }, paint) {
  const { width, height } = picture.size;
  const scale = MOST_PIXELS / Math.max(width, height);
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) });
  paint(canvas);
  return canvas;
}

/** Whether the query's viewer shows what was searched with. */
const isQuery = ({ slice }) => Boolean(slice) && (state.query.image ? slice.id === state.query.image : slice.file === state.query.file && (slice.frame ?? 1) === (state.query.frame ?? 1));

async function showInReading() {
  if (!compared) return;
  const { view, button, box, shares } = compared;
  button.hidden = !isExplained();
  button.setAttribute("aria-pressed", String(isOn()));
  box.hidden = !view.dialog.open || !isOn() || !isExplained();
  for (const { viewer } of view.panes) viewer.overlay = null;
  if (box.hidden) return;
  shares.replaceChildren();
  const images = view.results.map(({ id }) => id);
  const query = view.panes[0].viewer;
  for (const pane of view.shown) {
    const { viewer, result } = pane;
    const explanation = await explanations.of(state.query, result.id, images);
    if (pane.result !== result || !isOn() || !explanation || explanation.problem) continue;
    const isFirst = pane === view.shown[0];
    if (isFirst && explanation.shares) shares.replaceChildren(bars(explanation.shares));
    const paint = explanation.kind === "places" ? (canvas, name) => paintHeat(canvas, explanation[`${name}_map`], heatRange(explanation)) : (canvas, name) => paintEdges(canvas, explanation[`${name}_edges`]);
    const has = (name) => explanation.kind === "places" || explanation[`${name}_edges`];
    if (viewer.picture && pane.image === result.id && has("answer")) viewer.overlay = overlayOf(viewer, (canvas) => paint(canvas, "answer"));
    const isPainted = explanation.kind === "places" || !state.query.region; // edges are of the region alone
    if (isFirst && query.picture && isQuery(query) && isPainted && has("query")) query.overlay = overlayOf(query, (canvas) => paint(canvas, "query"));
  }
}

/** The reading view shows results. */
function reading(view) {
  compared ??= addTo(view);
  showInReading();
}

/** Turn explanations on or off. */
function toggle() {
  if (byId("explain").hidden) return;
  set(!isOn());
  remember(STORAGE_KEY, isOn() ? "on" : "off");
  showOn(document.activeElement?.closest?.("#columns .card") ?? null);
  showInReading();
}

function set(on) {
  byId("explain").setAttribute("aria-pressed", String(on));
  byId("explain-hint").hidden = !on || byId("explain").hidden;
  if (!on) hide();
}

function refresh() {
  byId("explain").hidden = !isExplained();
  byId("explain-hint").dataset.kind = kind();
  set(isOn());
}

/** Keys of the page. */
const keys = () => ({ h: toggle });

/** Connect the switch, the cards and the comparison. */
function install() {
  const columns = byId("columns");
  set(remembered(STORAGE_KEY) === "on");
  byId("explain").addEventListener("click", toggle);
  const cardAt = ({ target }) => target.closest(".grid > li")?.querySelector(".card") ?? null;
  columns.addEventListener("pointerover", (event) => showOn(cardAt(event)));
  columns.addEventListener("focusin", (event) => showOn(cardAt(event)));
  columns.addEventListener("pointerleave", hide);
  columns.addEventListener("focusout", hide);
  new MutationObserver(refresh).observe(columns, { childList: true });
}

addPart({ keys, install, reading });
