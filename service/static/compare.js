// An answer large beside the query: one zoom for both, flip, from answer to answer.

import { Problem, record } from "./service.js";
import { describe } from "./metadata.js";
import { Zoom } from "./zoom.js";
import { element } from "./answers.js";
import { imageAddress } from "./collection.js";

const at = (id) => document.getElementById(id);
const MOVED = 0.1; // of a pane, by one key

let cards = []; // of the list that is gone through
let place = 0;
let addressOf = null;
const zoom = new Zoom(at("panes"), [at("left"), at("right")], (scale) => {
  at("zoom").textContent = `${Math.round(scale * 100)} %`;
});

function picture(image, address, small) {
  image.parentElement.querySelector(".gone")?.remove();
  image.hidden = false;
  image.src = small; // at once; the large one when it is there
  const large = new Image();
  large.addEventListener("load", () => image.getAttribute("src") === small && (image.src = address));
  large.src = address;
}

function flip(is) {
  at("right").classList.toggle("flipped", is);
  at("flip").setAttribute("aria-pressed", String(is));
  zoom.draw();
}

function show() {
  const card = cards[place];
  const { image, rank } = card.dataset;
  const words = card.querySelector(".label").textContent;
  const moved = card.querySelector(".move")?.title;
  const figures = [...card.querySelector(".figures").children]; // their text even where they are not drawn
  at("compare-title").textContent = `${words}, rank ${rank} of ${cards.length}`;
  at("compare-facts").textContent = [...figures.map((one) => one.textContent), moved].filter(Boolean).join(" · ");
  at("right").alt = `Answer at rank ${rank}, ${words}`;
  at("right-words").textContent = `Rank ${rank} · ${words}`;
  at("from-here").href = addressOf(image);
  at("from-here").dataset.image = image;
  at("earlier").disabled = place === 0;
  at("later").disabled = place === cards.length - 1;
  flip(false);
  picture(at("right"), imageAddress(image, "/picture"), imageAddress(image, "/thumbnail"));
  if (!at("metadata").hidden) tell();
}

async function tell() {
  const { image } = cards[place].dataset;
  const list = at("metadata").firstElementChild;
  try {
    const known = await record(image);
    if (cards[place].dataset.image === image) list.replaceChildren(...describe(known));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    list.replaceChildren(element("div", "", element("dt", "", error.title), element("dd", "", error.message)));
  }
}

function metadata(open) {
  at("metadata").hidden = !open;
  at("tell").setAttribute("aria-expanded", String(open));
  if (open) tell();
}

function go(step) {
  const next = place + step;
  if (next < 0 || next >= cards.length) return;
  place = next;
  show();
}

/** Open for a card of the answers. query: {source, small, words} of the query's picture. */
export function open(card, query, toAddress, withMetadata = false) {
  cards = [...card.closest(".grid").querySelectorAll(".card")];
  place = cards.indexOf(card);
  addressOf = toAddress;
  at("left-words").textContent = query.words;
  picture(at("left"), query.source, query.small ?? query.source);
  zoom.reset();
  metadata(withMetadata);
  show();
  at("compare").showModal();
  at("later").disabled ? at("leave").focus() : at("later").focus();
}

export function close() {
  if (at("compare").open) at("compare").close();
}

const KEYS = {
  ArrowLeft: () => go(-1),
  ArrowRight: () => go(1),
  "+": () => zoom.larger(),
  "=": () => zoom.larger(),
  "-": () => zoom.smaller(),
  0: () => zoom.reset(),
  f: () => flip(!at("right").classList.contains("flipped")),
  i: () => metadata(at("metadata").hidden),
  s: () => at("from-here").click(),
};
const SHIFTED = {
  ArrowLeft: () => zoom.shift(MOVED, 0),
  ArrowRight: () => zoom.shift(-MOVED, 0),
  ArrowUp: () => zoom.shift(0, MOVED),
  ArrowDown: () => zoom.shift(0, -MOVED),
};

at("compare").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = (event.shiftKey && SHIFTED[event.key]) || KEYS[event.key.length > 1 ? event.key : event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
});
at("compare").addEventListener("close", () => cards[place]?.isConnected && cards[place].focus());
at("earlier").addEventListener("click", () => go(-1));
at("later").addEventListener("click", () => go(1));
at("larger").addEventListener("click", () => zoom.larger());
at("smaller").addEventListener("click", () => zoom.smaller());
at("fit").addEventListener("click", () => zoom.reset());
at("flip").addEventListener("click", KEYS.f);
at("tell").addEventListener("click", KEYS.i);
at("leave").addEventListener("click", close);
for (const image of [at("left"), at("right")]) {
  image.addEventListener("error", () => {
    image.hidden = true;
    image.parentElement.querySelector(".gone")?.remove();
    image.parentElement.append(element("span", "gone", "Picture no longer available"));
  });
}
