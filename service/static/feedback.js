// Relevance feedback: judging results, searching with the judgements, stepping back, and undoing rounds.

import { byId, element } from "./dom.js";
import { callParts } from "./page_parts.js";
import { asText, changes, parse, without } from "./rounds.js";
import { tr } from "./translate.js";

const MAX_IN_ADDRESS = 40; // judgements; more make the address too long, and stay in the history entry
const KINDS = { relevant: { value: 1, sign: "✓", title: tr("Relevant") }, irrelevant: { value: -1, sign: "✕", title: tr("Not relevant") } };

let marks = new Map(); // 1 or -1 by image id: the current judgements
let rounds = []; // as text: the judgements of each search so far, the last is the one that is shown

/** The judgements of the present search as text. */
function searched() {
  return rounds.at(-1) ?? "";
}

/** The judgements of the present search, in the form of the API. */
export function judgements() {
  return [...parse(searched())].map(([image_id, relevance]) => ({ image_id, relevance }));
}

/** The same as text for the address of the page; empty if there are too many. */
export function forAddress() {
  return judgements().length <= MAX_IN_ADDRESS ? searched() : "";
}

/** The rounds and the marks as text, as a history entry keeps them. */
export function kept() {
  return { rounds, marks: asText(marks) };
}

/** Restore what a history entry keeps, or else the judgements `said` of an address. */
export function restore(entry, said = "") {
  rounds = entry?.rounds ?? (said ? [said] : []);
  marks = parse(entry?.marks ?? searched());
  show();
}

/** Take all marks into the search; returns the state of its new history entry. */
export function commit(entry) {
  return follow(entry, marks.size ? [...rounds, asText(marks)] : []);
}

/** Take the judgements of one round back; returns the state of the new history entry. */
export function undo(entry, index) {
  const added = changes([searched(), asText(marks)])[1]; // marks that no search has seen yet stay
  const left = without(rounds, index);
  const next = follow(entry, left);
  for (const [image, value] of added) value ? marks.set(image, value) : marks.delete(image);
  return { ...next, marks: asText(marks) };
}

function follow(entry, next) {
  rounds = next;
  marks = parse(searched());
  return { ...entry, round: (entry?.round ?? 0) + 1, rounds, marks: searched() };
}

/** The two buttons of a card; shortcut keys do the same. */
export function judgementButtons(image, target) {
  return Object.entries(KINDS).map(([kind, { sign, title, value }]) => {
    const button = element("button", `act judge ${kind}`, sign);
    button.type = "button";
    button.tabIndex = -1;
    button.dataset.judge = kind;
    button.dataset.of = image;
    button.title = title;
    button.setAttribute("aria-label", `${title}: ${target}`);
    button.setAttribute("aria-pressed", String(marks.get(image) === value));
    return button;
  });
}

/** Mark an image, or remove the mark if it has the same already; the history entry keeps the marks. */
export function mark(image, kind) {
  const { value } = KINDS[kind];
  if (marks.get(image) === value) marks.delete(image);
  else marks.set(image, value);
  callParts("judge", image, marks.get(image) ?? 0);
  keepMarks();
  show();
}

/** "relevant", "irrelevant", or null without a mark. */
export const markOf = (image) => Object.keys(KINDS).find((kind) => KINDS[kind].value === marks.get(image)) ?? null;

function keepMarks() {
  history.replaceState({ ...history.state, marks: asText(marks) }, "");
}

/** Update the buttons and the bar; call it whenever the history entry changes. */
export function show() {
  for (const button of document.querySelectorAll("[data-judge]")) {
    button.setAttribute("aria-pressed", String(marks.get(button.dataset.of) === KINDS[button.dataset.judge].value));
  }
  const relevant = [...marks.values()].filter((value) => value > 0).length;
  byId("rounds").hidden = !marks.size && !rounds.length;
  byId("judged").textContent = tr("{relevant} relevant, {others} not relevant", { relevant, others: marks.size - relevant });
  byId("learn").disabled = asText(marks) === searched();
  byId("step-back").disabled = !history.state?.round;
  showRounds();
}

function showRounds() {
  const items = changes(rounds).map((changed, index) => {
    const values = { round: index + 1, count: changed.size };
    const text = tr("Round {round} · {count} judged", values);
    const button = element("button", "chip", text, element("span", "", " ×"));
    button.type = "button";
    button.dataset.round = index;
    button.setAttribute("aria-label", tr("Undo round {round}, {count} judged", values));
    return element("li", "", button);
  });
  byId("round-list").hidden = !items.length;
  byId("round-list").replaceChildren(...items);
}

/** Connect the buttons; learn() searches with the marks, undoRound(index) without those of a round. */
export function install(learn, undoRound) {
  byId("learn").addEventListener("click", learn);
  byId("step-back").addEventListener("click", back);
  byId("unjudge").addEventListener("click", () => {
    for (const image of marks.keys()) callParts("judge", image, 0);
    marks.clear();
    show();
    if (rounds.length) learn();
    else keepMarks();
  });
  byId("round-list").addEventListener("click", (event) => {
    const button = event.target.closest("[data-round]");
    if (button) undoRound(Number(button.dataset.round));
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-judge]");
    if (button) mark(button.dataset.of, button.dataset.judge);
  });
}

/** Go back to the results of the previous round. */
export function back() {
  if (history.state?.round) history.back();
}
