// Download images with their labels as csv or JSON.

import { images, table } from "./requests.js";

const PAGE = 1000; // images of a request

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
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

/** Save the records of all images that meet conditions as JSON; progress(count) is called for each page. */
export async function saveAllRecords({ where, sort }, progress) {
  const parts = [];
  let cursor = null;
  let count = 0;
  do {
    const page = await images({ where, sort, limit: PAGE, cursor });
    for (const item of page.items) parts.push(count++ ? ",\n" : "", JSON.stringify(item));
    progress(count);
    cursor = page.next;
  } while (cursor !== null);
  save(new Blob(["[", ...parts, "]\n"], { type: "application/json" }), "images.json");
}
