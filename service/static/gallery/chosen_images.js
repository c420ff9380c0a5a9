// Images that another page has chosen for the gallery, by their ids. They stay in the tab until it is closed.

const KEY = "gallery-images";
export const MOST = 10_000; // images that requests of the gallery may change at once

/** Keep the first MOST ids; returns how many, 0 if storage is disabled. */
export function keepChosen(ids, storage = globalThis.sessionStorage) {
  const kept = ids.slice(0, MOST);
  try {
    storage.setItem(KEY, JSON.stringify(kept));
  } catch {
    return 0;
  }
  return kept.length;
}

/** The kept ids; none if there are none. */
export function chosenIds(storage = globalThis.sessionStorage) {
  try {
    const ids = JSON.parse(storage.getItem(KEY) ?? "[]");
    return Array.isArray(ids) ? ids.filter((id) => typeof id === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

/** The page of ids after a cursor, null at first: {ids, next}. */
export function chosenPage(ids, cursor, limit) {
  const start = Number(cursor ?? 0);
  const end = start + limit;
  return { ids: ids.slice(start, end), next: end < ids.length ? String(end) : null };
}
