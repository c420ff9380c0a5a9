// The usage log: tells the service which answers were shown, opened and judged, if the setting usage_log is on.

import { session } from "./login/page_session.js";
import { addPart } from "./page_parts.js";
import { UsageQueue } from "./usage_queue.js";

const HEADER = "Usage-Search"; // asks for an id of the search, and brings it
const DELAY = 2000; // ms until waiting events are sent

const ids = new WeakMap(); // of logged searches, by answer
const queue = new UsageQueue();
let shownSearch = null; // id of the search whose answers are on the page
let timer = 0;

const box = () => document.getElementById("usage"); // null if the log is off

/** Headers of a search. */
function searchHeaders() {
  return box() ? { [HEADER]: "log" } : {};
}

/** Remember the id of a search that came with its answer. */
function receive(answer, response) {
  const id = response.headers.get(HEADER);
  if (id) ids.set(answer, id);
}

/** Log that an answer is on the page; null: none is. */
function answer(received) {
  const id = (received && ids.get(received)) ?? null;
  if (!box() || id === shownSearch) return;
  shownSearch = id;
  box().hidden = !id;
  press(0);
  add("shown");
}

/** Log that a result was opened: "compare", "metadata" or "viewer". */
function openResult(kind, card) {
  if (isReranked(card)) add(kind, card.dataset.image);
}

/** Log a judgement of a result: 1, -1, or 0 for none. */
function judge(image, value) {
  add("relevant", image, value);
}

/** False for a card of the list before re-ranking, which is another method's. */
function isReranked(card) {
  if (!card.closest("#columns")) return false; // found by another search
  const view = document.querySelector("input[name=view]:checked")?.value;
  const before = !document.getElementById("views").hidden && view !== "after";
  return !before || (view === "both" && card.closest(".column") === document.getElementById("columns").lastElementChild);
}

function add(event, image, value) {
  if (!shownSearch) return;
  queue.add({ search: shownSearch, event, image, value });
  timer ||= setTimeout(flush, DELAY);
}

function press(value) {
  for (const button of box().querySelectorAll("[data-useful]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.useful) === value));
  }
}

function flush() {
  clearTimeout(timer);
  timer = 0;
  while (queue.size) {
    const body = JSON.stringify({ events: queue.take() });
    const headers = { "Content-Type": "application/json", ...session.headers };
    fetch("/usage", { method: "POST", headers, body, keepalive: true }).catch(() => {}); // the page goes on without the log
  }
}

/** Connect the buttons and the page's end. */
function install() {
  if (!box()) return;
  box().addEventListener("click", (event) => {
    const button = event.target.closest("[data-useful]");
    if (!button) return;
    const value = button.getAttribute("aria-pressed") === "true" ? 0 : Number(button.dataset.useful);
    press(value);
    add("useful", "", value);
  });
  for (const kind of ["click", "auxclick"]) { // auxclick: the middle button
    document.addEventListener(kind, (event) => {
      const card = event.target.closest?.(".in-viewer")?.parentElement.querySelector(".card");
      if (card) openResult("viewer", card);
    });
  }
  addEventListener("pagehide", flush);
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && flush());
}

addPart({ searchHeaders, receive, answer, openResult, judge, install });
