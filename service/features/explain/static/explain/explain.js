// What matches between the query and a result: on the card under the pointer or focus, and in the comparison.

import { form, request } from "../api.js";
import { current } from "../collection.js";
import { byId } from "../dom.js";
import { addPart } from "../page_parts.js";
import { state } from "../search_state.js";
import { remember, remembered } from "../theme.js";
import { Explanations } from "./explanations.js";
import { cover, uncover } from "./overlay.js";
import { heatRange, mapPart, paintEdges, paintHeat } from "./paint.js";
import { bars } from "./parts.js";

const STORAGE_KEY = "explain";

const explanations = new Explanations(load);
let shownOn = null; // the card that is explained

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

async function showInComparison() {
  const dialog = byId("compare");
  const [left, right] = [byId("left"), byId("right")];
  for (const picture of [left, right]) uncover(picture);
  byId("part-shares").replaceChildren();
  byId("match-parts").hidden = true;
  if (!dialog.open || !isOn() || !isExplained()) return;
  const { image } = byId("from-here").dataset;
  const card = [...byId("columns").querySelectorAll(".card")].find(({ dataset }) => dataset.image === image);
  const explanation = card && (await explanationOf(card, () => dialog.open && byId("from-here").dataset.image === image));
  if (!explanation) return;
  byId("match-parts").hidden = false;
  byId("match-parts").dataset.kind = explanation.kind;
  if (explanation.shares) byId("part-shares").replaceChildren(bars(explanation.shares));
  const paint = () => {
    if (byId("from-here").dataset.image !== image) return;
    if (explanation.kind === "places") {
      const part = mapPart(explanation.query_map, state.query.region, byId("drop").dataset);
      const range = heatRange(explanation);
      cover(left, (canvas) => paintHeat(canvas, explanation.query_map, range, part));
      cover(right, (canvas) => paintHeat(canvas, explanation.answer_map, range));
    } else {
      if (explanation.query_edges) cover(left, (canvas) => paintEdges(canvas, explanation.query_edges));
      if (explanation.answer_edges) cover(right, (canvas) => paintEdges(canvas, explanation.answer_edges));
    }
  };
  for (const picture of [left, right]) picture.decode().then(paint, () => {});
}

/** Turn explanations on or off. */
function toggle() {
  if (byId("explain").hidden) return;
  set(!isOn());
  remember(STORAGE_KEY, isOn() ? "on" : "off");
  showOn(document.activeElement?.closest?.("#columns .card") ?? null);
  showInComparison();
}

function set(on) {
  for (const id of ["explain", "compare-explain"]) byId(id).setAttribute("aria-pressed", String(on));
  byId("explain-hint").hidden = !on || byId("explain").hidden;
  if (!on) hide();
}

function refresh() {
  for (const id of ["explain", "compare-explain"]) byId(id).hidden = !isExplained();
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
  byId("compare-explain").addEventListener("click", toggle);
  const cardAt = ({ target }) => target.closest(".grid > li")?.querySelector(".card") ?? null;
  columns.addEventListener("pointerover", (event) => showOn(cardAt(event)));
  columns.addEventListener("focusin", (event) => showOn(cardAt(event)));
  columns.addEventListener("pointerleave", hide);
  columns.addEventListener("focusout", hide);
  new MutationObserver(refresh).observe(columns, { childList: true });
  new MutationObserver(showInComparison).observe(byId("from-here"), { attributes: true, attributeFilter: ["data-image"] });
  new MutationObserver(() => byId("compare").open && showInComparison()).observe(byId("compare"), { attributes: true, attributeFilter: ["open"] });
  byId("compare").addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "h" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input")) return;
    event.preventDefault();
    event.stopPropagation();
    toggle();
  });
  byId("match-opacity").addEventListener("input", (event) => byId("panes").style.setProperty("--match", event.target.value / 100));
}

addPart({ keys, install });
