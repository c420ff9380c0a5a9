// What lies over the pictures while there is nothing to judge, and the messages of failed requests.

import { byId } from "/static/dom.js";
import { tr } from "/static/translate.js";

const SECTIONS = ["waiting", "paused", "finished"];

/** Cover the pictures with the section "waiting", "paused" or "finished", or uncover them with null. */
export function cover(id) {
  for (const section of SECTIONS) byId(section).hidden = section !== id;
  byId("panes").inert = id !== null;
}

/** Show the section "waiting" with a text. */
export function coverWaiting(text = tr("Loading …")) {
  byId("waiting").textContent = text;
  cover("waiting");
}

/** Show an error; null hides it, except a refusal, which stays until the next answer. */
export function showError(error) {
  const box = byId("problem");
  if (!error && box.dataset.kind === "refused") return;
  box.hidden = !error;
  box.dataset.kind = error?.kind ?? "";
  if (!error) return;
  const [title, message] = box.children;
  const titles = {
    offline: tr("The server does not respond"),
    busy: tr("The server is busy"),
    login: tr("You are no longer logged in"),
  };
  title.textContent = titles[error.kind] ?? tr("The request was refused");
  message.textContent = error.message;
  byId("log-in").hidden = error.kind !== "login";
}

/** Let the next response hide a refusal. */
export function forgetRefusal() {
  delete byId("problem").dataset.kind;
}
