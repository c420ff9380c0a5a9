// Addresses of cases and cohorts, and what is said of them. Without the document.

import { tr } from "../translate.js";

/** The address of a case or cohort in the API; kind: "cases" or "cohorts". */
export const apiAddress = (kind, id, part = "") => `/v1/${kind}/${encodeURIComponent(id)}${part}`;

/** The address of its page. */
export const pageAddress = (kind, id) => `/saved/${kind}/${encodeURIComponent(id)}`;

/** Collection, date, and who shares it; several: there are several collections. */
export function savedFacts({ collection, created, mine, owner, shared }, several) {
  return [several ? collection : "", created.slice(0, 10), mine ? "" : owner, shared ? tr("shared") : tr("private")].filter(Boolean).join(" · ");
}

/** The address of the teaching file of a case in a format, with these label keys and ranks of results. */
export function exportAddress(id, format, keys, ranks) {
  const query = new URLSearchParams({ format });
  for (const key of keys.length ? keys : [""]) query.append("label_keys", key);
  for (const rank of ranks.length ? ranks : [0]) query.append("ranks", rank);
  return apiAddress("cases", id, `/export?${query}`);
}

/** The address of a search with an image of a collection; "" is the default one. */
export const searchAddress = (image, collection) => `/?${new URLSearchParams({ image, ...(collection && { collection }) })}`;
