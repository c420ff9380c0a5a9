// Keys for everything: through the grid of answers, and letters where nothing is being typed.

import { remember, remembered } from "./theme.js";

const at = (id) => document.getElementById(id);
const KEY = "single-keys";

function perRow(cards) {
  const top = (card) => card.parentElement.offsetTop;
  const second = cards.findIndex((card) => top(card) !== top(cards[0]));
  return second < 0 ? cards.length : second;
}

/** The card that a key leads to from `card`; undefined where the key means nothing. */
function neighbour(card, key) {
  const cards = [...card.closest(".grid").querySelectorAll(".card")];
  const place = cards.indexOf(card);
  const places = {
    ArrowLeft: () => place - 1,
    ArrowRight: () => place + 1,
    ArrowUp: () => place - perRow(cards),
    ArrowDown: () => place + perRow(cards),
    Home: () => 0,
    End: () => cards.length - 1,
  };
  return places[key] && cards[places[key]()];
}

function typing(target) {
  return target.closest("input:not([type=radio], [type=checkbox], [type=range], [type=file]), textarea, select");
}

/** keys: what each letter does; onCard: what each does with the answer that has the focus. */
export function install(keys, onCard) {
  at("single-keys").checked = remembered(KEY) !== "off";
  at("single-keys").addEventListener("change", () => remember(KEY, at("single-keys").checked ? "on" : "off"));
  at("keys-help").addEventListener("click", () => at("help").showModal());
  at("helped").addEventListener("click", () => at("help").close());

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const card = event.target.closest?.(".grid .card");
    const next = card && neighbour(card, event.key);
    if (next) {
      event.preventDefault();
      next.focus();
      return;
    }
    if (!at("single-keys").checked || typing(event.target)) return;
    const key = event.key.toLowerCase();
    if (key === "?") at("help").showModal();
    else if (card && onCard[key]) onCard[key](card);
    else if (keys[key]) keys[key]();
    else return;
    event.preventDefault();
  });
}
