// The state of the search page: its query, the results that are shown, and the requests that run.

/**
 * query: {image} of the collection, {text}, or {file, frame, window} of the user; images may have a region; null at the start.
 * shown: {after, before, params}: results with re-ranking, without (once loaded), and the search parameters; null without results.
 */
export const state = { query: null, shown: null };

const kept = []; // queries by file or text, which no address contains: for the browser's back button
let running = new AbortController();

/** Keep a query for the history; returns its number. */
export function keepQuery(query) {
  if (!kept.includes(query)) kept.push(query);
  return kept.indexOf(query);
}

/** The kept query with this number, or null. */
export function keptQuery(number) {
  return kept[number] ?? null;
}

/** End the requests that run; returns the signal of the next ones. */
export function restart() {
  running.abort();
  running = new AbortController();
  return running.signal;
}

/** The signal of the requests that run. */
export function signal() {
  return running.signal;
}
