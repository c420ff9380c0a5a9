// The query and marks over a reload: in this browser alone, and only if the user wants it.

import { state } from "../page_state.js";
import { asText, parse } from "../rounds.js";
import { remember, remembered } from "../theme.js";

const CHOICE = "keep-query";
const [DATABASE, STORE, KEY] = ["cbir", "kept", "query"];

/** Whether the one who is logged in wants it; a browser may have several users. */
export const isOn = () => remembered(CHOICE) === state.facts.caller;

const settled = (request) => new Promise((resolve, reject) => Object.assign(request, { onsuccess: () => resolve(request.result), onerror: () => reject(request.error) }));

/** Do one thing with the store; nothing where storage is disabled or full. */
async function withStore(mode, act) {
  try {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const database = await settled(opening);
    return await settled(act(database.transaction(STORE, mode).objectStore(STORE))).finally(() => database.close());
  } catch {
    return undefined;
  }
}

const forget = () => withStore("readwrite", (store) => store.delete(KEY));

/** Turn it on or off; what was kept, by whomever, is forgotten. */
export async function choose(on) {
  remember(CHOICE, on ? state.facts.caller : "");
  await forget();
  kept = null;
  keep();
}

let kept = null; // what was written last

/** Keep the query, its collection, and the marks of now. */
export function keep() {
  const { query, marks, rounds, facts } = state;
  if (!isOn() || (kept?.query === query && kept.marks === marks && kept.rounds === rounds)) return;
  const before = kept;
  kept = { query, marks, rounds };
  if (query) withStore("readwrite", (store) => store.put({ query, collection: facts.collection, marks: asText(marks), rounds }, KEY));
  else if (before?.query) forget(); // a new search; at first what is kept is taken up again
}

/** What was kept of a collection, to start with: {query, marks, rounds}; null if there is nothing. */
export async function restored(collection) {
  const found = isOn() ? await withStore("readonly", (store) => store.get(KEY)) : null;
  return found?.collection === collection ? { query: found.query, marks: parse(found.marks), rounds: found.rounds } : null;
}
