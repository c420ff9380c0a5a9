// Relevance feedback: judging results, searching with the judgements, and stepping back.

import { byId, element } from "./dom.js";

const MAX_IN_ADDRESS = 40; // judgements; more make the address too long, and stay in the history entry
const KINDS = { relevant: { value: 1, sign: "✓", title: "Relevant" }, irrelevant: { value: -1, sign: "✕", title: "Not relevant" } };

let marks = new Map(); // 1 or -1 by image id: the current judgements
let searched = ""; // as text: the judgements of the search that is shown

/** The current judgements as text. */
function marksAsText() {
  return [...marks].map(([image, value]) => (value < 0 ? `-${image}` : image)).join(",");
}

/** The judgements of the present search, in the form of the API. */
export function judgements() {
  return searched.split(",").filter(Boolean).map((entry) => {
    const negative = entry.startsWith("-");
    return { image_id: negative ? entry.slice(1) : entry, relevance: negative ? -1 : 1 };
  });
}

/** The same as text for the address of the page; empty if there are too many. */
export function forAddress() {
  return judgements().length <= MAX_IN_ADDRESS ? searched : "";
}

/** Restore the judgements of an address or a history entry. */
export function restore(text) {
  searched = text ?? "";
  marks = new Map(judgements().map(({ image_id, relevance }) => [image_id, relevance]));
  show();
}

/** Take all marks into the search; returns the state of its new history entry. */
export function commit(state) {
  searched = marksAsText();
  show();
  return { ...state, round: (state?.round ?? 0) + 1, said: searched };
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

/** Mark an image, or remove the mark if it has the same already. */
export function mark(image, kind) {
  const { value } = KINDS[kind];
  if (marks.get(image) === value) marks.delete(image);
  else marks.set(image, value);
  show();
}

/** Update the buttons; call it whenever the history entry changes. */
export function show() {
  for (const button of document.querySelectorAll("[data-judge]")) {
    button.setAttribute("aria-pressed", String(marks.get(button.dataset.of) === KINDS[button.dataset.judge].value));
  }
  const relevant = [...marks.values()].filter((value) => value > 0).length;
  const round = history.state?.round ?? 0;
  byId("rounds").hidden = !marks.size && !searched;
  byId("judged").textContent = `${relevant} relevant, ${marks.size - relevant} not relevant`;
  byId("learn").disabled = marksAsText() === searched;
  byId("step-back").disabled = !round;
}

/** Connect the buttons; learn() searches with the marks. */
export function install(learn) {
  byId("learn").addEventListener("click", learn);
  byId("step-back").addEventListener("click", back);
  byId("unjudge").addEventListener("click", () => {
    marks.clear();
    show();
    learn(); // does nothing if the search had no judgements
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
