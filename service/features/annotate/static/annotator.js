// The name of the person who judges: the token's, or one entered before.

import { byId } from "/static/dom.js";
import { remember, remembered } from "/static/theme.js";

const STORAGE_KEY = "annotator";

/** The name of the annotator; opens the dialog if it is unknown. */
export function annotatorName() {
  const name = byId("judging").dataset.who ?? remembered(STORAGE_KEY);
  return name ? Promise.resolve(name) : askForName();
}

/** True if the annotator is identified by a token. */
export function isIdentified() {
  return "who" in byId("judging").dataset;
}

/** Forget the name and open the dialog again. */
export function changeAnnotator() {
  remember(STORAGE_KEY, "");
  location.reload();
}

function askForName() {
  byId("asking").showModal();
  return new Promise((resolve) => {
    byId("asking").addEventListener("cancel", (event) => event.preventDefault());
    byId("introduce").addEventListener("submit", (event) => {
      const name = byId("name").value.trim();
      if (!name) {
        event.preventDefault();
        return;
      }
      remember(STORAGE_KEY, name);
      resolve(name);
    });
  });
}
