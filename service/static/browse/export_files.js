// Download images with their labels as csv or JSON.

import { table } from "./requests.js";

const PAGE = 1000; // images of a request

function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the download has begun by then
}

/** Save {ids} or {where, sort} as a csv table. */
export async function saveTable(params) {
  save(await table(params), "images.csv");
}

/** Save records as a JSON list. */
export function saveRecords(records) {
  save(new Blob([JSON.stringify(records, null, 1)], { type: "application/json" }), "images.json");
}

/** Save the records of all pages that load(cursor, limit) has; progress(count) is called for each. */
export async function saveAllRecords(load, progress) {
  const parts = [];
  let [cursor, count] = [null, 0];
  do {
    const page = await load(cursor, PAGE);
    for (const item of page.items) parts.push(count++ ? ",\n" : "", JSON.stringify(item));
    progress(count);
    cursor = page.next;
  } while (cursor !== null);
  save(new Blob(["[", ...parts, "]\n"], { type: "application/json" }), "images.json");
}
