// Keys: arrows judge, letters and signs do the rest where nothing is being typed.

import { remember, remembered } from "/static/theme.js";

const at = (id) => document.getElementById(id);
const KEY = "single-keys";
const TAKEN = "input:not([type=checkbox]), textarea, select";

/** keys: what each does, "Shift+" before those with it. */
export function install(keys) {
  at("single-keys").checked = remembered(KEY) !== "off";
  at("single-keys").addEventListener("change", () => remember(KEY, at("single-keys").checked ? "on" : "off"));
  at("keys-help").addEventListener("click", () => at("help").showModal());
  at("helped").addEventListener("click", () => at("help").close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.(TAKEN)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const sign = event.key.length === 1;
    if (sign && !at("single-keys").checked) return;
    const name = sign ? event.key.toLowerCase() : `${event.shiftKey ? "Shift+" : ""}${event.key}`;
    if (name === "?") at("help").showModal();
    else if (!keys[name]) return;
    else if (!event.repeat || event.shiftKey) keys[name](); // a key held down judges once
    event.preventDefault();
  });
}
