// Images that a cohort begins with, handed from the search page or the gallery to the page of cohorts, in this tab.

const KEY = "cohort-start";
export const MOST = 1000; // images of a request

/** Keep {collection, relevant, irrelevant, where} for the page of cohorts; false if storage is disabled. */
export function keepStart(start, storage = globalThis.sessionStorage) {
  try {
    storage.setItem(KEY, JSON.stringify(start));
  } catch {
    return false;
  }
  return true;
}

/** What was kept, once; null if there is nothing. */
export function keptStart(storage = globalThis.sessionStorage) {
  try {
    const start = JSON.parse(storage.getItem(KEY) ?? "null");
    return start?.relevant?.length ? start : null;
  } catch {
    return null;
  }
}

/** Forget what was kept. */
export function forgetStart(storage = globalThis.sessionStorage) {
  try {
    storage.removeItem(KEY);
  } catch {
    // nothing was kept
  }
}

/** Keep the start and open the page of cohorts. */
export function openCohorts(start) {
  if (keepStart(start)) location.assign("/cohorts");
}
