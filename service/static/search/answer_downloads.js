// The results that are shown as files, and printed. Loaded when it is used.

import { toCsv, toJson, toUids } from "../answer_files.js";
import { renderSheet } from "../answer_sheet.js";
import { imageAddress } from "../api.js";
import { tr } from "../translate.js";
import { captionOf } from "./comparison.js";
import { collectionName, shownHits } from "./run.js";

const MAX_SIDE = 384; // pixels of a picture in a sheet
const RELEASE_MS = 60_000; // until when a browser has read the file

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), RELEASE_MS);
}

function dataUrl(source, width, height) {
  const scale = Math.min(1, MAX_SIDE / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.getContext("2d").drawImage(source, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.9);
}

/** The picture at an address as a data URL, null if it cannot be loaded. */
async function loadedUrl(address) {
  const image = new Image();
  image.src = address;
  const loaded = await image.decode().then(() => true, () => false);
  return loaded ? dataUrl(image, image.naturalWidth, image.naturalHeight) : null;
}

/** The picture of the query as it is shown, null for words. */
function queryUrl({ query }) {
  if (query.image) return loadedUrl(imageAddress(collectionName(), query.image, "/picture", { region: query.region?.join(",") }));
  const canvas = document.querySelector("#side cbir-viewer canvas");
  return canvas ? dataUrl(canvas, canvas.width, canvas.height) : null;
}

async function saveSheet(now) {
  const hits = shownHits(now);
  const query = { caption: captionOf(now.query), data: now.query.text ? null : await queryUrl(now) };
  const pictures = await Promise.all(hits.map((hit) => loadedUrl(hit.links.thumbnail)));
  save("results.html", "text/html", renderSheet({ note: tr("Re-ranking: {method}", now.answer.rerank), query, results: hits, pictures }));
}

async function printResults() {
  const images = [...document.querySelectorAll("#columns img")];
  for (const image of images) image.loading = "eager"; // those out of sight have not been loaded
  await Promise.all(images.map((image) => image.decode().catch(() => {})));
  print();
}

/** What takes results away, by its name in the menu; called with the state. */
export const DOWNLOADS = {
  sheet: saveSheet,
  print: printResults,
  csv: (now) => save("results.csv", "text/csv", toCsv(shownHits(now))),
  json: (now) => save("results.json", "application/json", toJson(now.answer, shownHits(now))),
  uids: (now) => save("dicom-uids.csv", "text/csv", toUids(shownHits(now))),
};
