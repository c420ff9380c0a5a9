// The grid of images to judge: cards, keys and taps.

import { element, replaceIfMissing } from "../dom.js";
import { tr } from "../translate.js";

const KINDS = [
  { relevant: true, sign: "✓", kind: "relevant", title: tr("Belongs to the cohort") },
  { relevant: false, sign: "✕", kind: "irrelevant", title: tr("Does not belong") },
];

function button({ relevant, sign, kind, title }, name) {
  const node = element("button", `judge-cohort ${kind}`, sign);
  node.type = "button";
  node.tabIndex = -1; // keys do the same
  node.dataset.relevant = String(relevant);
  node.setAttribute("aria-label", `${title}: ${name}`);
  return node;
}

/** The card of an image of a batch; number: from 1. */
export function card(item, number) {
  const image = element("img");
  image.alt = "";
  image.src = item.links.thumbnail;
  replaceIfMissing(image);
  const name = tr("Image {number}", { number });
  const picture = element("button", "cohort-picture film", image);
  picture.type = "button";
  picture.dataset.step = "";
  const words = Object.values(item.labels).slice(0, 2).join(" · ");
  const entry = element("li", "cohort-card", picture, element("div", "cohort-buttons", ...KINDS.map((kind) => button(kind, name))), element("p", "hint", words));
  entry.dataset.image = item.image_id;
  entry.dataset.name = name;
  return entry;
}

/** Show the judgement of each card. */
export function showMarks(grid, judgements) {
  for (const entry of grid.children) {
    const mark = judgements.of(entry.dataset.image);
    entry.classList.toggle("is-relevant", mark === true);
    entry.classList.toggle("is-irrelevant", mark === false);
    const state = mark === undefined ? tr("not judged") : mark ? tr("belongs") : tr("does not belong");
    entry.querySelector("[data-step]").setAttribute("aria-label", `${entry.dataset.name}: ${state}`);
    for (const node of entry.querySelectorAll("[data-relevant]")) {
      node.setAttribute("aria-pressed", String(String(mark) === node.dataset.relevant));
    }
  }
}

function columns(entries) {
  const second = entries.findIndex((entry) => entry.offsetTop !== entries[0].offsetTop);
  return second < 0 ? entries.length : second;
}

/** Move the focus from a card by an arrow key; false for other keys. */
export function moveFocus(grid, entry, key) {
  const entries = [...grid.children];
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(entries), ArrowDown: columns(entries) };
  if (!(key in steps)) return false;
  entries[entries.indexOf(entry) + steps[key]]?.querySelector("[data-step]").focus();
  return true;
}
