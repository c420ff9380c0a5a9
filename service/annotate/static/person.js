// Who is judging: the token's name, or what the person said once.

import { remember, remembered } from "/static/theme.js";

const at = (id) => document.getElementById(id);
const KEY = "annotator";

/** The name; asks for it where it is not known. */
export function person() {
  const known = at("judging").dataset.who ?? remembered(KEY);
  return known ? Promise.resolve(known) : introduced();
}

/** Whether the page must say who it is. */
export function isTold() {
  return "who" in at("judging").dataset;
}

/** Ask who is judging from now on. */
export function forget() {
  remember(KEY, "");
  location.reload();
}

function introduced() {
  at("asking").showModal();
  return new Promise((resolve) => {
    at("asking").addEventListener("cancel", (event) => event.preventDefault());
    at("introduce").addEventListener("submit", (event) => {
      const name = at("name").value.trim();
      if (!name) {
        event.preventDefault();
        return;
      }
      remember(KEY, name);
      resolve(name);
    });
  });
}
