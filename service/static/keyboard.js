// Keyboard navigation in the grid of results, and single-key shortcuts.

import { byId } from "./dom.js";
import { remember, remembered } from "./theme.js";

const STORAGE_KEY = "single-keys";

function cardsPerRow(cards) {
  const top = (card) => card.parentElement.offsetTop;
  const second = cards.findIndex((card) => top(card) !== top(cards[0]));
  return second < 0 ? cards.length : second;
}

/** The card that a navigation key moves to from `card`; undefined for other keys. */
function targetCard(card, key) {
  const cards = [...card.closest(".grid").querySelectorAll(".card")];
  const index = cards.indexOf(card);
  const targets = {
    ArrowLeft: () => index - 1,
    ArrowRight: () => index + 1,
    ArrowUp: () => index - cardsPerRow(cards),
    ArrowDown: () => index + cardsPerRow(cards),
    Home: () => 0,
    End: () => cards.length - 1,
  };
  return targets[key] && cards[targets[key]()];
}

function isTextField(target) {
  return target.closest("input:not([type=radio], [type=checkbox], [type=range], [type=file]), textarea, select");
}

/** actions: function by key; cardActions: function(card) by key, for the focused result. */
export function install(actions, cardActions) {
  byId("single-keys").checked = remembered(STORAGE_KEY) !== "off";
  byId("single-keys").addEventListener("change", () => remember(STORAGE_KEY, byId("single-keys").checked ? "on" : "off"));
  byId("keys-help").addEventListener("click", () => byId("help").showModal());
  byId("helped").addEventListener("click", () => byId("help").close());

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const card = event.target.closest?.(".grid .card");
    const next = card && targetCard(card, event.key);
    if (next) {
      event.preventDefault();
      next.focus();
      return;
    }
    if (!byId("single-keys").checked || isTextField(event.target)) return;
    const key = event.key.toLowerCase();
    if (key === "?") byId("help").showModal();
    else if (card && cardActions[key]) cardActions[key](card);
    else if (actions[key]) actions[key]();
    else return;
    event.preventDefault();
  });
}
