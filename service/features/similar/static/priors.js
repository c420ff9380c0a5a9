// The panel with the other studies of the query's patient, which come before the other results.

import { request, search } from "./api.js";
import { imageAddress } from "./collection.js";
import { byId, element } from "./dom.js";
import { addPart } from "./page_parts.js";
import { hasPatient } from "./query_view.js";
import * as reranking from "./reranking.js";
import { column } from "./result_cards.js";
import { fixed, tr, trn } from "./translate.js";

const MOST = 24; // images in the panel of a file
const STUDIES = 10;
const IMAGES = 6; // of a study

const panel = byId("priors");
let open = null; // loads the images, for a file when the user asks for them

/** Hide the panel. */
function clear() {
  open = null;
  panel.hidden = true;
  panel.open = false;
  byId("prior-list").replaceChildren();
}

/**
 * Offer the other studies of the patient of a query. Those of an image of the collection are loaded at once. The
 * service counts how many patients a caller asks for by file, so those of a DICOM file are loaded on demand.
 * addressOf(imageId): the address of a search with an image.
 */
async function show({ query, answer, addressOf, signal }) {
  if (!hasPatient(answer.query)) return;
  if (query.image) {
    const found = await loadStudies(query.image, signal);
    if (signal.aborted) return;
    drawStudies(found, addressOf);
    panel.open = !(panel.hidden = !found.total);
    return;
  }
  byId("prior-title").textContent = tr("Other studies of this patient");
  panel.hidden = false;
  open = async () => {
    const k = Math.min(Number(byId("k").max), MOST);
    const { results } = await search(query, { ...reranking.NONE, k, where: [], feedback: [], same_patient: true }, signal);
    if (!signal.aborted) drawImages(results, k, addressOf);
  };
}

async function loadStudies(image, signal) {
  const address = imageAddress(image, "/priors");
  const params = new URLSearchParams({ limit: STUDIES, images: IMAGES });
  return (await request(`${address}${address.includes("?") ? "&" : "?"}${params}`, { signal })).json();
}

/** Draw studies with their distance in time; images of an unknown study and time are in one row. */
function drawStudies({ studies, total }, addressOf) {
  byId("prior-title").textContent = tr("Other studies of this patient ({count})", { count: total });
  const rows = [];
  for (const study of studies) {
    const unknown = study.study === null && study.days_before === null;
    const last = rows.at(-1);
    if (unknown && last?.unknown) last.images.push(...study.images);
    else rows.push({ ...study, unknown, images: [...study.images] });
  }
  byId("prior-list").replaceChildren(...rows.map((row) => studyRow(row, addressOf)));
}

function studyRow(row, addressOf) {
  const hits = row.images.map((image, index) => ({ ...image, rank: index + 1, score: image.likeness, distance: 0 }));
  const title = timeOf(row.days_before);
  const facts = element("p", "prior-facts");
  if (row.same_view) facts.append(element("span", "", tr("same view")));
  if (row.compare) facts.append(comparisonLink(row.compare, title));
  const grid = column(title, hits, null, addressOf).querySelector(".grid");
  grid.setAttribute("aria-label", title);
  return element("section", "prior-study", element("h3", "", title), facts, grid);
}

/** Say how long before the query's study another one was made. */
function timeOf(days) {
  if (days === null) return tr("Time unknown");
  if (days === 0) return tr("On the same day");
  if (days < 0) return trn("{count} day later", "{count} days later", -days);
  return trn("{count} day earlier", "{count} days earlier", days);
}

/** A link to both studies side by side in the DICOM viewer. */
function comparisonLink(address, title) {
  const link = element("a", "", `${tr("Side by side")} ↗`);
  Object.assign(link, { href: address, target: "_blank", rel: "noopener noreferrer" });
  link.title = tr("Side by side in the viewer");
  link.setAttribute("aria-label", `${link.title}: ${title}`);
  return link;
}

function drawImages(results, k, addressOf) {
  const count = results.length === k ? `${fixed(k, 0)}+` : fixed(results.length, 0);
  byId("prior-title").textContent = tr("Same patient ({count})", { count });
  const none = tr("The collection has no other study of this patient.");
  const title = tr("Same patient");
  const grid = column(title, results, null, addressOf).querySelector(".grid");
  grid.setAttribute("aria-label", title);
  byId("prior-list").replaceChildren(results.length ? grid : none);
}

/** Connect the panel; showError(error): its images cannot be loaded. */
function install({ showError }) {
  panel.addEventListener("toggle", () => {
    if (!panel.open || !open) return;
    const load = open;
    open = null;
    load().catch((error) => {
      clear();
      if (error.name !== "AbortError") showError(error);
    });
  });
}

addPart({ clear, show, install });
