// The results that are shown as files: csv, JSON, the UIDs of DICOM images, one HTML file with their pictures; and printed. Loaded when it is used.

import { imageAddress } from "../api.js";
import { saveFile } from "../theme.js";
import { fixed, language, tr } from "../translate.js";
import { captionOf } from "./query_viewer.js";
import { collectionName, shownHits } from "./run.js";

const COLUMNS = ["rank", "image_id", "score", "distance", "patient", "study", "series", "instance", "frame"];

/** A cell of a csv file, quoted where needed; what a spreadsheet takes for a formula begins with an apostrophe. */
function cell(value) {
  // A formula may also follow ; or a tab, which separate cells in many spreadsheets, or a line break.
  let text = String(value ?? "").split(/([;\t\r\n])/).map(harmlessPart).join("");
  if (/^[\t\r\n]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function harmlessPart(part) {
  const isNumber = part.trim() === part && Number.isFinite(Number(part));
  return /^[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(part) && !isNumber ? `'${part}` : part;
}

const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");

/** The results as csv: a row for each, with a column for each label; a label with the name of a column is label:NAME. */
export function toCsv(results) {
  const keys = [...new Set(results.flatMap((hit) => Object.keys(hit.labels)))];
  const titles = keys.map((key) => (COLUMNS.includes(key) ? `label:${key}` : key));
  const rows = results.map((hit) => [...COLUMNS.map((column) => ({ ...hit, ...hit.dicom })[column]), ...keys.map((key) => hit.labels[key])]);
  return csv([[...COLUMNS, ...titles], ...rows]);
}

export const toJson = (answer, results) => `${JSON.stringify({ ...answer, results }, null, 2)}\n`;

/** The UIDs of the DICOM images among the results as csv, each instance once. */
export function toUids(results) {
  const places = new Map(results.filter((hit) => hit.dicom).map(({ dicom }) => [dicom.instance, dicom]));
  const rows = [...places.values()].map(({ study, series, instance }) => [study, series, instance]);
  return csv([["StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"], ...rows]);
}

const STYLE = `
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 2rem 1.5rem; max-width: 80rem; font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.4rem; margin: 0; }
p { margin: .25rem 0 0; overflow-wrap: anywhere; }
.soft { opacity: .72; font-size: .85em; }
.query { max-width: 16rem; margin: 1.25rem 0; }
ol { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 1rem .75rem; margin: 0; padding: 0; list-style: none; }
li { min-width: 0; break-inside: avoid; }
img, .none { display: block; box-sizing: border-box; width: 100%; aspect-ratio: 1; object-fit: contain; background: #000; border-radius: 4px; }
.none { padding: .75rem; background: #8882; }
@media print { body { padding: 0; } ol { grid-template-columns: repeat(5, 1fr); } img { print-color-adjust: exact; } }
`;
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text) => String(text).replace(/[&<>"]/g, (sign) => ESCAPES[sign]);

const pictureMarkup = (data, text) => (data ? `<img alt="${escape(text)}" src="${escape(data)}">` : `<p class="none">${escape(tr("No picture"))}</p>`);

function itemMarkup(hit, data) {
  const figures = tr("score {score} · distance {distance}", { score: fixed(hit.score, 3), distance: fixed(hit.distance, 3) });
  const labels = Object.entries(hit.labels).map(([key, value]) => `${key} ${value}`).join(", ");
  return [
    `<li>${pictureMarkup(data, tr("Rank {rank}", { rank: hit.rank }))}`,
    `<p><b>${escape(hit.rank)}</b> · ${escape(figures)}</p>`,
    labels && `<p>${escape(labels)}</p>`,
    `<p class="soft">${escape(hit.image_id)}</p></li>`,
  ].join("");
}

/**
 * The file as text. note: how was searched; query: {caption, data} of its picture, data null for words;
 * results: hits in their order; pictures: the data URL of each, null without a picture.
 */
export function renderSheet({ note, query, results, pictures }) {
  const items = results.map((hit, index) => itemMarkup(hit, pictures[index])).join("\n");
  return `<!doctype html>
<html lang="${language}"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${escape(tr("Similar images"))}</title><style>${STYLE}</style></head>
<body><h1>${escape(tr("Similar images"))}</h1>
<p class="soft">${escape(note)}. ${escape(tr("The pictures are from the collection: protect this file as you protect them. Not a medical device."))}</p>
<div class="query">${query.data === null ? "" : pictureMarkup(query.data, tr("The query"))}<p>${escape(query.caption)}</p></div>
<ol>
${items}
</ol></body></html>
`;
}

const MAX_SIDE = 384; // pixels of a picture in a sheet

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
  saveFile("results.html", "text/html", renderSheet({ note: tr("Re-ranking: {method}", now.answer.rerank), query, results: hits, pictures }));
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
  csv: (now) => saveFile("results.csv", "text/csv", toCsv(shownHits(now))),
  json: (now) => saveFile("results.json", "application/json", toJson(now.answer, shownHits(now))),
  uids: (now) => saveFile("dicom-uids.csv", "text/csv", toUids(shownHits(now))),
};
