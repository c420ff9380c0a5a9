// Keyboard shortcuts: arrow keys judge, single keys do the rest outside of text fields.

import { byId } from "/static/dom.js";
import { remember, remembered } from "/static/theme.js";

const STORAGE_KEY = "single-keys";
const TEXT_FIELDS = "input:not([type=checkbox]), textarea, select";

/** actions: function by key, with the prefix "Shift+" for keys held with Shift. */
export function install(actions) {
  byId("single-keys").checked = remembered(STORAGE_KEY) !== "off";
  byId("single-keys").addEventListener("change", () => remember(STORAGE_KEY, byId("single-keys").checked ? "on" : "off"));
  byId("keys-help").addEventListener("click", () => byId("help").showModal());
  byId("helped").addEventListener("click", () => byId("help").close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.(TEXT_FIELDS)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const isCharacter = event.key.length === 1;
    if (isCharacter && !byId("single-keys").checked) return;
    const name = isCharacter ? event.key.toLowerCase() : `${event.shiftKey ? "Shift+" : ""}${event.key}`;
    if (name === "?") byId("help").showModal();
    else if (!actions[name]) return;
    else if (!event.repeat || event.shiftKey) actions[name](); // holding a key down judges only once
    event.preventDefault();
  });
}
