// The study of the page: what the service says of it, who judges, and requests about it.

import { fetchJson, jsonBody, withFields } from "../api.js";
import { byId, remember, remembered } from "../theme.js";
import { tr } from "../translate.js";

const NAME_KEY = "annotator"; // in the browser's storage

/** {id, name, page, who, grades: [{value, name, key}], references: [{image, caption}], instructions_version} */
export const facts = JSON.parse(byId("judging").dataset.facts);

export const addressOf = (path, parameters = {}) => withFields(path, { study: facts.name, ...parameters });

/** An address of its API, which serves no other study that has taken its place since the page was opened. */
const apiAddress = (path, parameters = {}) => addressOf(path, { study_id: facts.id, ...parameters });

/** The picture of an image, as a slice of a viewer. */
export const sliceOf = (id, parameters = {}) => ({ address: apiAddress(`/annotate/images/${id}/picture`, parameters) });

export const sourceOf = (id) => ({ kind: "address", ...sliceOf(id) });

export const load = (path, parameters) => fetchJson(apiAddress(path, parameters));

export const send = (path, body) => fetchJson(apiAddress(path), jsonBody(body));

/** What can be done about a failed request: try again, "later", log in, "login", or nothing, "refused". */
export function remedyOf({ status, temporary }) {
  if (status === 401 || status === 403) return "login";
  return temporary || !status || status === 408 ? "later" : "refused"; // no status: no answer of the service, as from a proxy's own page
}

/** An error {remedy, title, message} for the person who judges. */
export function problemOf(error) {
  const remedy = remedyOf(error);
  const isAway = !error.status;
  const titles = { login: error.status === 401 ? tr("You are no longer logged in") : null, later: isAway ? tr("The server does not respond") : tr("The server is busy") };
  const message = isAway ? tr("Your answers are stored in this browser and sent when the server responds again.") : error.message;
  const logIn = () => location.assign(`/login?${new URLSearchParams({ next: location.pathname + location.search })}`);
  return { remedy, title: titles[remedy] ?? tr("The request was refused"), message, ...(remedy === "login" && { again: logIn, words: tr("Log in") }) };
}

/** A body with the name of the person, unless the login says who it is. */
export const signed = (body, who) => (facts.who ? body : { ...body, who });

/** The name of the person who judges: by the login, or as entered in this browser, where it is asked for once. */
export async function personName() {
  const name = facts.who ?? (remembered(NAME_KEY) || (await askForName()));
  byId("person").textContent = name;
  byId("somebody-else")?.addEventListener("click", () => {
    remember(NAME_KEY, "");
    location.reload();
  });
  return name;
}

function askForName() {
  byId("asking").showModal();
  return new Promise((resolve) => {
    byId("asking").addEventListener("cancel", (event) => event.preventDefault());
    byId("introduce").addEventListener("submit", (event) => {
      const name = byId("name").value.trim();
      if (!name) return event.preventDefault();
      remember(NAME_KEY, name);
      resolve(name);
    });
  });
}
