// What the reader says of answers: marks, rounds of searching with them, and the way back.

import { element } from "./answers.js";

const at = (id) => document.getElementById(id);
const IN_ADDRESS = 40; // judgements; more make the address too long, and stay in the tab
const KINDS = { relevant: { value: 1, sign: "✓", title: "Relevant" }, irrelevant: { value: -1, sign: "✕", title: "Not relevant" } };

let marks = new Map(); // by image, 1 or -1: as they are now
let asked = ""; // as text, what the answers were searched with

function text() {
  return [...marks].map(([image, value]) => (value < 0 ? `-${image}` : image)).join(",");
}

/** The judgements that the present search is made with, as the service takes them. */
export function sent() {
  return asked.split(",").filter(Boolean).map((said) => {
    const negative = said.startsWith("-");
    return { image_id: negative ? said.slice(1) : said, relevance: negative ? -1 : 1 };
  });
}

/** The same for the page's address; nothing where they are too many for it. */
export function inAddress() {
  return sent().length <= IN_ADDRESS ? asked : "";
}

/** Judge as an address or an entry of the history says. */
export function restore(said) {
  asked = said ?? "";
  marks = new Map(sent().map(({ image_id, relevance }) => [image_id, relevance]));
  show();
}

/** The state of the history's entry that searching with all marks makes. */
export function commit(state) {
  asked = text();
  show();
  return { ...state, round: (state?.round ?? 0) + 1, said: asked };
}

/** Two buttons for a card; with the keyboard their letters do the same. */
export function buttons(image, of) {
  return Object.entries(KINDS).map(([kind, { sign, title, value }]) => {
    const button = element("button", `act judge ${kind}`, sign);
    button.type = "button";
    button.tabIndex = -1;
    button.dataset.judge = kind;
    button.dataset.of = image;
    button.title = title;
    button.setAttribute("aria-label", `${title}: ${of}`);
    button.setAttribute("aria-pressed", String(marks.get(image) === value));
    return button;
  });
}

/** Mark an image, or take the same mark away. */
export function mark(image, kind) {
  const { value } = KINDS[kind];
  if (marks.get(image) === value) marks.delete(image);
  else marks.set(image, value);
  show();
}

/** Draw the marks and what can be done with them; to be called when the history has another entry. */
export function show() {
  for (const button of document.querySelectorAll("[data-judge]")) {
    button.setAttribute("aria-pressed", String(marks.get(button.dataset.of) === KINDS[button.dataset.judge].value));
  }
  const relevant = [...marks.values()].filter((value) => value > 0).length;
  const round = history.state?.round ?? 0;
  at("rounds").hidden = !marks.size && !asked;
  at("judged").textContent = `${relevant} relevant, ${marks.size - relevant} not`;
  at("learn").disabled = text() === asked;
  at("step-back").disabled = !round;
}

/** learn(): search with the marks. */
export function install(learn) {
  at("learn").addEventListener("click", learn);
  at("step-back").addEventListener("click", back);
  at("unjudge").addEventListener("click", () => {
    marks.clear();
    show();
    learn(); // nothing happens where nothing was searched with
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-judge]");
    if (button) mark(button.dataset.of, button.dataset.judge);
  });
}

/** To the answers of the round before. */
export function back() {
  if (history.state?.round) history.back();
}
