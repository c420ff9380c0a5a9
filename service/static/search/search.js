// The search page: its state, what draws it, and what changes it; the query and marks over a reload, in this browser alone, and only if the user wants it.

import "../shell.js";
import { callParts, state, subscribe, update } from "../page_state.js";
import { asText, parse } from "../rounds.js";
import { byId, remember, remembered } from "../theme.js";
import { render } from "../vendor/lit.js";
import "../viewer/viewer.js";
import { found, installScrubbing } from "./found.js";
import * as keys from "./keys.js";
import * as openQuery from "./open_query.js";
import { factsOf, openAddress, resume, showError } from "./run.js";
import { defaultSettings } from "./search_fields.js";
import { side } from "./side.js";

const CHOICE = "keep-query";
const [DATABASE, STORE, KEY] = ["cbir", "kept", "query"];

/** Whether the one who is logged in wants it; a browser may have several users. */
const isKeeping = () => remembered(CHOICE) === state.facts.caller;

const settledRequest = (request) => new Promise((resolve, reject) => Object.assign(request, { onsuccess: () => resolve(request.result), onerror: () => reject(request.error) }));

/** Do one thing with the store; nothing where storage is disabled or full. */
async function withStore(mode, act) {
  try {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const database = await settledRequest(opening);
    return await settledRequest(act(database.transaction(STORE, mode).objectStore(STORE))).finally(() => database.close());
  } catch {
    return undefined;
  }
}

const forget = () => withStore("readwrite", (store) => store.delete(KEY));

/** Turn it on or off; what was kept, by whomever, is forgotten. */
async function chooseKeeping(on) {
  remember(CHOICE, on ? state.facts.caller : "");
  await forget();
  kept = null;
  keep();
}

let kept = null; // what was written last

/** Keep the query, its collection, and the marks of now. */
function keep() {
  const { query, marks, rounds, facts } = state;
  if (!isKeeping() || (kept?.query === query && kept.marks === marks && kept.rounds === rounds)) return;
  const before = kept;
  kept = { query, marks, rounds };
  if (query) withStore("readwrite", (store) => store.put({ query, collection: facts.collection, marks: asText(marks), rounds }, KEY));
  else if (before?.query) forget(); // a new search; at first what is kept is taken up again
}

/** What was kept of a collection, to start with: {query, marks, rounds}; null if there is nothing. */
async function restored(collection) {
  const found = isKeeping() ? await withStore("readonly", (store) => store.get(KEY)) : null;
  return found?.collection === collection ? { query: found.query, marks: parse(found.marks), rounds: found.rounds } : null;
}

const facts = factsOf(document);

Object.assign(state, {
  facts, // what the service says of the collection
  settings: defaultSettings(facts), // of searches: k, rerank, parameters, where, group, ownStudy, anywhere, view
  opened: null, // the query as it was opened, of which query may be another part
  query: null, // {image} of the collection, {text}, or {file, frame, window, slices, files} of the user; images may have a region
  answer: null, // of the API, to the search with shownQuery and fields
  shownQuery: null,
  fields: null,
  members: new Map(), // further results of groups {members, left}, by their best one
  slices: new Map(), // slices of series that cards show, by image
  marks: new Map(), // 1 or -1 by image
  rounds: [], // as text: the marks of each search so far
  otherWindow: null, // {window} of the query's picture that is not searched in yet
  busy: null, // {share} of a search that runs
  problem: null, // {title, message, again}
  notice: "",
  expert: remembered("expert") === "yes",
  small: remembered("small-cards") === "yes",
  dragging: false,
  sheet: false, // whether the query's tools are open on a phone
});

let boxed = null; // the query whose words the box has

subscribe((now) => {
  document.body.classList.toggle("started", Boolean(now.query));
  document.body.classList.toggle("expert-on", now.expert);
  if (now.query !== boxed) byId("box").value = now.query?.text ?? "";
  boxed = now.query;
  render(side(now), byId("side"));
  render(found(now), byId("found"));
  keep();
  if (now.answer && now.painted !== now.answer) requestAnimationFrame(() => requestAnimationFrame(() => update({ painted: now.answer })));
});

async function start() {
  await Promise.all(callParts("open"));
  const words = new URLSearchParams(location.search).get("q");
  const kept = words || location.search.includes("image=") ? null : await restored(facts.collection);
  await openAddress();
  if (words) return openQuery.openText(words);
  if (kept && !state.query) await resume(kept);
  else if (kept?.query && String(kept.query.image) === String(state.query?.image)) update({ marks: kept.marks });
}

byId("expert").checked = state.expert;
byId("expert").addEventListener("change", ({ target }) => {
  remember("expert", target.checked ? "yes" : "no");
  update({ expert: target.checked });
});
byId("keep").checked = isKeeping();
byId("keep").addEventListener("change", ({ target }) => chooseKeeping(target.checked));
openQuery.install();
keys.install();
installScrubbing(byId("found"));
callParts("install", { showError });
addEventListener("popstate", openAddress);
start()
  .catch(showError)
  .finally(() => {
    performance.mark("ready");
    (globalThis.requestIdleCallback ?? setTimeout)(() => import("../query_files.js")); // before it is needed
  });
