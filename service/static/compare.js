// The dialog that compares a result with the query: shared zoom, flip, next and previous result.

import { byId, element } from "./dom.js";
import { ApiError, record } from "./api.js";
import { describe } from "./metadata.js";
import * as slices from "./compare_slices.js";
import * as compareWindow from "./compare_window.js";
import { frame } from "./match_frame.js";
import { callParts } from "./page_parts.js";
import { tr } from "./translate.js";
import { Zoom } from "./zoom.js";
import { imageAddress } from "./collection.js";
import * as feedback from "./feedback.js";
import { state } from "./search_state.js";
import { Lens } from "./lens.js";
import { Ruler } from "./ruler.js";

const KEY_STEP = 0.1; // part of a pane that an arrow key moves the images by

let cards = []; // of the list of results
let position = 0; // of the current card in it
let addressOf = null;
const judgeButtons = byId("compare").querySelectorAll("[data-judge]");
const panes = byId("panes");
const images = [byId("left"), byId("right")];
const ruler = new Ruler({ area: panes, button: byId("measure"), output: byId("measured"), factsOf: ({ id }) => compareWindow.factsOf(id) });
const lens = new Lens({ area: panes, images, button: byId("lens") });
const zoom = new Zoom(panes, images, (scale) => {
  byId("zoom").textContent = `${Math.round(scale * 100)} %`;
  ruler.clear();
  lens.draw();
}, { zoomsBy: (event) => event.ctrlKey || !slices.sideOf(event) });

/** Show a small picture at once, and the large one when it has loaded. */
function loadPicture(image, address, small) {
  image.parentElement.querySelector(".gone")?.remove();
  image.hidden = false;
  image.src = small;
  const large = new Image();
  large.addEventListener("load", () => image.getAttribute("src") === small && (image.src = address));
  large.src = address;
}

function flip(flipped) {
  byId("right").classList.toggle("flipped", flipped);
  byId("flip").setAttribute("aria-pressed", String(flipped));
  zoom.draw();
}

function invert() {
  const inverted = panes.classList.toggle("inverted");
  byId("invert").setAttribute("aria-pressed", String(inverted));
}

function show() {
  const card = cards[position];
  const { image, rank } = card.dataset;
  const title = card.querySelector(".label").textContent;
  const move = card.querySelector(".move")?.title;
  const figures = [...card.querySelector(".figures").children]; // textContent also covers hidden ones
  byId("compare-title").textContent = tr("{title}, rank {rank} of {count}", { title, rank, count: cards.length });
  byId("compare-facts").textContent = [...figures.map((figure) => figure.textContent), move].filter(Boolean).join(" · ");
  byId("right").alt = tr("Result at rank {rank}, {title}", { rank, title });
  byId("right-words").textContent = tr("Rank {rank} · {title}", { rank, title });
  byId("from-here").href = addressOf(image);
  byId("from-here").dataset.image = image;
  byId("earlier").disabled = position === 0;
  byId("later").disabled = position === cards.length - 1;
  for (const button of judgeButtons) button.dataset.of = image;
  feedback.show();
  flip(false);
  loadPicture(byId("right"), imageAddress(image, "/picture"), imageAddress(image, "/thumbnail"));
  compareWindow.showResult(image);
  frame(byId("right"), state.shown?.after.results.find((hit) => hit.image_id === image)?.match);
  slices.showResult(image, () => cards[position]?.dataset.image === image);
  callParts("openResult", "compare", card);
  if (!byId("metadata").hidden) loadMetadata();
}

async function loadMetadata() {
  const { image } = cards[position].dataset;
  callParts("openResult", "metadata", cards[position]);
  const list = byId("metadata").firstElementChild;
  try {
    const loaded = await record(image);
    if (cards[position].dataset.image === image) list.replaceChildren(...describe(loaded));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    list.replaceChildren(element("div", "", element("dt", "", error.title), element("dd", "", error.message)));
  }
}

/** Show another slice at a side; "Search with this image" then means that of the result. */
function showSlice(side, item) {
  compareWindow.showSlice(side, (window) => slices.loadSlice(item, window));
  if (side === "left") return;
  byId("from-here").href = addressOf(item.image_id);
  byId("from-here").dataset.image = item.image_id;
}

function toggleMetadata(open) {
  byId("metadata").hidden = !open;
  byId("tell").setAttribute("aria-expanded", String(open));
  if (open) loadMetadata();
}

function judge(kind) {
  if (!judgeButtons[0].hidden) feedback.mark(cards[position].dataset.image, kind);
}

function go(step) {
  const next = position + step;
  if (next < 0 || next >= cards.length) return;
  position = next;
  show();
}

/**
 * Open the dialog for a result card.
 * query: {source, small, caption} of the query's picture, source null for words; toAddress(imageId): the address of a search with an image.
 */
export function open(card, query, toAddress, withMetadata = false) {
  cards = [...card.closest(".grid").querySelectorAll(".card")];
  position = cards.indexOf(card);
  addressOf = toAddress;
  byId("left-words").textContent = query.caption;
  byId("left").hidden = !query.source;
  for (const button of judgeButtons) button.hidden = !query.source; // judgements go with images
  if (query.source) loadPicture(byId("left"), query.source, query.small ?? query.source);
  zoom.reset();
  const { query: shown } = state;
  compareWindow.showQuery().then(() => state.query === shown && slices.showQuery(shown, compareWindow.factsOf("left")?.frames ?? 1));
  toggleMetadata(withMetadata);
  show();
  byId("compare").showModal();
  byId("later").disabled ? byId("leave").focus() : byId("later").focus();
}

export function close() {
  if (byId("compare").open) byId("compare").close();
}

const KEYS = {
  ArrowLeft: () => go(-1),
  ArrowRight: () => go(1),
  "+": () => zoom.larger(),
  "=": () => zoom.larger(),
  "-": () => zoom.smaller(),
  0: () => zoom.reset(),
  1: () => zoom.actualSize(),
  v: invert,
  m: () => ruler.toggle(),
  z: () => lens.toggle(),
  f: () => flip(!byId("right").classList.contains("flipped")),
  i: () => toggleMetadata(byId("metadata").hidden),
  s: () => byId("from-here").click(),
  y: () => judge("relevant"),
  n: () => judge("irrelevant"),
};
const SHIFTED = {
  ArrowLeft: () => zoom.shift(KEY_STEP, 0),
  ArrowRight: () => zoom.shift(-KEY_STEP, 0),
  ArrowUp: () => zoom.shift(0, KEY_STEP),
  ArrowDown: () => zoom.shift(0, -KEY_STEP),
};

byId("compare").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const scrolls = event.target.closest("select, input, #metadata"); // by the same keys
  if (!scrolls && (lens.key(event) || (!event.shiftKey && slices.key(event)))) {
    event.preventDefault();
    event.stopPropagation();
    return;
  }
  const action = (event.shiftKey && SHIFTED[event.key]) || KEYS[event.key.length > 1 ? event.key : event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
});
byId("compare").addEventListener("close", () => cards[position]?.isConnected && cards[position].focus());
byId("earlier").addEventListener("click", () => go(-1));
byId("later").addEventListener("click", () => go(1));
byId("larger").addEventListener("click", () => zoom.larger());
byId("smaller").addEventListener("click", () => zoom.smaller());
byId("fit").addEventListener("click", () => zoom.reset());
byId("flip").addEventListener("click", KEYS.f);
byId("actual-size").addEventListener("click", KEYS[1]);
byId("invert").addEventListener("click", invert);
byId("tell").addEventListener("click", KEYS.i);
panes.addEventListener("wheel", slices.turn, { passive: false });
slices.install(showSlice);
byId("leave").addEventListener("click", close);
for (const image of images) {
  image.addEventListener("error", () => {
    image.hidden = true;
    image.parentElement.querySelector(".gone")?.remove();
    image.parentElement.append(element("span", "gone", tr("Picture no longer available")));
  });
}
