// The usage log: tells the service which answers were shown, opened and judged, if the setting usage_log is on.

import { jsonBody } from "./api.js";
import { session } from "./login/session.js";
import { addPart, state, update } from "./page_state.js";
import { tr } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

const BATCH = 50; // events of one request
const HEADER = "Usage-Search"; // asks for an id of the search, and brings it
const DELAY = 2000; // ms until waiting events are sent

const ids = new WeakMap(); // of logged searches, by answer
const waiting = new Map(); // events by search, kind and image: a later value replaces an earlier one
let shownSearch = null; // id of the search whose answers are on the page
let timer = 0;

const isOn = () => Boolean(state.facts.parts.usage?.log);

const searchHeaders = () => (isOn() ? { [HEADER]: "log" } : {});

function receive(answer, response) {
  const id = response.headers.get(HEADER);
  if (id) ids.set(answer, id);
}

/** Log that an answer is on the page; null: none is. */
function answer(received) {
  const id = (received && ids.get(received)) ?? null;
  if (!isOn() || id === shownSearch) return;
  shownSearch = id;
  update({ useful: 0 });
  add("shown");
}

/** Log that a result was opened: "compare", "metadata" or "viewer". */
function openResult(kind, hit) {
  if (state.settings.view !== "before") add(kind, hit.image_id); // the list without re-ranking is another method's
}

const judge = (image, value) => add("relevant", image, value);

function add(event, image = "", value = 1) {
  if (!shownSearch) return;
  const key = [shownSearch, event, image].join(" ");
  waiting.delete(key); // to the end
  waiting.set(key, { search: shownSearch, event, image, value });
  timer ||= setTimeout(flush, DELAY);
}

function flush() {
  clearTimeout(timer);
  timer = 0;
  const events = [...waiting.values()];
  waiting.clear();
  while (events.length) {
    const { headers, ...options } = jsonBody({ events: events.splice(0, BATCH) });
    fetch("/usage", { ...options, headers: { ...headers, ...session.headers }, keepalive: true }).catch(() => {}); // the page goes on without the log
  }
}

function choose(value) {
  const useful = state.useful === value ? 0 : value;
  update({ useful });
  add("useful", "", useful);
}

function panels({ facts, useful, answer: shown }) {
  if (!isOn() || !shown || !shownSearch) return nothing;
  const button = (value, words) => html`<button class="link" type="button" data-useful=${value} aria-pressed=${String(useful === value)} @click=${() => choose(value)}>${useful === value ? "● " : ""}${words}</button>`;
  return html`<div class="panel" id="usage" role="group" aria-label=${tr("Are these results useful?")}>${tr("Are these results useful?")} ${button(1, tr("Useful"))} ${button(-1, tr("Not useful"))}
    <p class="hint">${tr("This service logs which results are opened and judged, not by whom.")}${facts.parts.usage.vectors ? ` ${tr("Of images that you send it keeps computed values, without the picture.")}` : ""}</p></div>`;
}

function install() {
  addEventListener("pagehide", flush);
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && flush());
}

addPart({ searchHeaders, receive, answer, openResult, judge, panels, install });
