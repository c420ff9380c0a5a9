// Single keys as shortcuts, and going through the results by arrow keys.

import { neighbour } from "../card.js";
import { ask } from "../dialog.js";
import { callParts, state } from "../page_state.js";
import { byId, remember, remembered, switchColours } from "../theme.js";
import { tr } from "../translate.js";
import { html } from "../vendor/lit.js";
import { queryViewer } from "./query_viewer.js";
import { changeView, isStale, mark, refine, searchWith, shownHits } from "./run.js";

const CHOICE = "single-keys";

const hitOf = (card) => shownHits(state).find(({ image_id, site }) => !site && image_id === card.dataset.image);

const judge = (card, value) => !state.query.text && !isStale(state) && hitOf(card) && mark(card.dataset.image, value);

const actions = () => ({
  o: () => byId("file").click(),
  "/": () => byId("box").focus(),
  g: () => document.querySelector("#columns .card, #start .card")?.focus(),
  f: () => byId("add-filter")?.click(),
  w: () => byId("whole")?.click(),
  j: refine,
  b: () => history.state?.round && history.back(),
  e: () => byId("expert").click(),
  l: switchColours,
  "?": showHelp,
  ...(state.expert && { 1: () => changeView("before"), 2: () => changeView("after"), 3: () => changeView("both"), r: () => byId("rerank")?.focus(), k: () => byId("k")?.focus() }),
  ...Object.assign({}, ...callParts("keys")),
});

const cardActions = {
  s: (card) => hitOf(card) && searchWith(card.dataset.image),
  y: (card) => judge(card, 1),
  n: (card) => judge(card, -1),
};

const isField = (target) => target.closest("input:not([type=radio], [type=checkbox], [type=range], [type=file]), textarea, select");

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const card = event.target.closest?.("#columns .card, #start .card");
  const next = card && neighbour(card, event.key);
  if (next) {
    event.preventDefault();
    return next.focus();
  }
  if (remembered(CHOICE) === "off" || isField(event.target)) return;
  const key = event.key.toLowerCase();
  const ofResult = card?.closest("#columns") && cardActions[key];
  const action = ofResult ? () => ofResult(card) : actions()[key];
  if (!action) {
    if (event.target === document.body && queryViewer()?.press(event)) event.preventDefault();
    return;
  }
  event.preventDefault();
  action();
}

const KEYS = () => [
  ["O", tr("Choose an image")],
  ["/", tr("Type an id, a link or words")],
  ["Ctrl V", tr("Search with the image in the clipboard")],
  ["G", tr("Go to the results; arrow keys, Home and End move through them")],
  ["Enter", tr("On a result: compare it with the query")],
  ["D Z M C", tr("On the query: window, zoom, measure, region")],
  ["0", tr("Reset window and zoom")],
  ["S", tr("On a result: search with it")],
  ["Y N", tr("On a result: like this, not like this; again to undo")],
  ["J B", tr("Refine with the marks, step back")],
  ["F", tr("Filters")],
  ["W", tr("Search with the whole image again")],
  ["E", tr("Expert: methods, scores, timings")],
  ["L", tr("Dark or light colours")],
  ["?", tr("This list")],
];

function showHelp() {
  const rows = [...KEYS(), ...callParts("keyWords").flat()];
  const body = html`<label class="check" for="single-keys"><input type="checkbox" id="single-keys" ?checked=${remembered(CHOICE) !== "off"} @change=${({ target }) => remember(CHOICE, target.checked ? "on" : "off")} /> ${tr("Use single keys as shortcuts")}</label>
    <dl>${rows.map(([keys, words]) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${words}</dd></div>`)}</dl>`;
  ask({ id: "help", title: tr("Keyboard shortcuts"), body, confirm: tr("Close"), cancel: "", act: () => {} });
}

export function install() {
  document.addEventListener("keydown", press);
  byId("keys-help").addEventListener("click", showHelp);
}
