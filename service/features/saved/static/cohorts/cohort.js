// The page of a cohort: rounds of judgements, progress, changing and deleting it.

import { request } from "../api.js";
import { byId } from "../dom.js";
import "../theme.js";
import { tr, trn } from "../translate.js";
import { card, moveFocus, showMarks } from "./batch_grid.js";
import { drawCurve } from "./curve.js";
import * as deleteCohort from "./delete_cohort.js";
import * as foundImages from "./found_images.js";
import { Judgements } from "./judgements.js";

const { cohort: id, mine } = byId("cohort").dataset;
const address = `/v1/cohorts/${encodeURIComponent(id)}`;
let history = byId("cohort").dataset.history; // "1" or "0" for each judged image
let judgements = new Judgements([]);
let busy = false;

function send(path, body, method = "POST") {
  const options = body ? { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : { method };
  return request(`${address}${path}`, options);
}

/** Run an action with the buttons disabled; shows its error. */
async function attempt(action) {
  if (busy) return;
  busy = true;
  byId("problem").hidden = true;
  showButtons();
  try {
    await action();
  } catch (error) {
    byId("problem").querySelector("p").textContent = error.message;
    byId("problem").hidden = false;
  } finally {
    busy = false;
    showButtons();
  }
}

function showButtons() {
  if (mine === undefined) return;
  for (const name of ["all-relevant", "all-irrelevant"]) byId(name).disabled = busy || judgements.size === judgements.ids.length;
  byId("next").disabled = busy || !judgements.size;
  byId("undo").disabled = busy || (!judgements.size && history.length <= 1);
}

const ADVICE = {
  "nearly complete": tr("Nearly complete: more than 90 % are probably found. Go on if each one counts."),
  complete: tr("You can stop: at least 95 % are probably found."),
};

function showEstimate(estimate) {
  const { found, judged, missing, missing_low: low, missing_high: high } = estimate;
  byId("found").textContent = found;
  byId("found-words").textContent = trn("found, {count} image judged", "found, {count} images judged", judged);
  const total = Math.round(found + missing);
  const words = tr("About {missing} of {total} are missing ({low} to {high}).", { missing: Math.round(missing), total, low, high });
  byId("missing").textContent = words;
  if (mine !== undefined) byId("missing-above").textContent = words;
  const percent = (value) => Math.round(100 * value);
  byId("recall").textContent = tr("{recall} % found ({low} to {high} %)", {
    recall: percent(estimate.recall),
    low: percent(estimate.recall_low),
    high: percent(estimate.recall_high),
  });
  byId("advice").hidden = !ADVICE[estimate.advice];
  byId("advice").textContent = ADVICE[estimate.advice] ?? "";
  drawCurve(byId("curve"), history, { low: found + low, expected: found + missing, high: found + high });
}

async function readImages() {
  const { images } = await (await request(address, {})).json();
  history = images.map(({ relevant }) => (relevant ? "1" : "0")).join("");
  return images;
}

/** Load the images found, if they are shown. */
async function showFound() {
  const section = byId("found-images");
  if (section.open) foundImages.show(section.querySelector("ul"), await readImages(), mine !== undefined);
}

/** Judge an image that was found as one that does not belong. */
function takeOut(image) {
  attempt(async () => {
    await send("/judgements", { judgements: [{ image_id: image, relevant: false }] });
    await showFound();
    await readEstimate();
  });
}

async function readEstimate() {
  showEstimate(await (await request(`${address}/estimate`, {})).json());
}

async function showBatch() {
  byId("grid").setAttribute("aria-busy", "true");
  const { items, estimate } = await (await send("/batch")).json();
  judgements = new Judgements(items.map(({ image_id }) => image_id));
  byId("grid").replaceChildren(...items.map((item, index) => card(item, index + 1)));
  byId("grid").removeAttribute("aria-busy");
  byId("finished").hidden = items.length > 0;
  showMarks(byId("grid"), judgements);
  showEstimate(estimate);
  await showFound();
  byId("status").textContent = trn("{count} image to judge", "{count} images to judge", items.length);
}

function focusFirst() {
  byId("grid").querySelector("[data-step]")?.focus();
  scrollTo(0, 0);
}

function next() {
  const list = judgements.list();
  if (!list.length) return;
  attempt(async () => {
    await send("/judgements", { judgements: list });
    history += list.map(({ relevant }) => (relevant ? "1" : "0")).join("");
    await showBatch();
    focusFirst();
  });
}

/** Take back the marks of this batch, or the judgements of the last one. */
function undo() {
  if (judgements.size) {
    judgements = new Judgements(judgements.ids);
    changed();
    return;
  }
  attempt(async () => {
    await send("/undo");
    await readImages();
    await showBatch();
  });
}

function changed() {
  showMarks(byId("grid"), judgements);
  showButtons();
}

function onClick({ target }) {
  const image = target.closest("[data-image]")?.dataset.image;
  const mark = target.closest("[data-relevant]");
  if (mark) judgements.mark(image, mark.dataset.relevant === "true");
  else if (target.closest("[data-step]")) judgements.step(image);
  else return;
  changed();
}

function onKey(event) {
  const entry = event.target.closest?.("[data-image]");
  if (!entry || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.toLowerCase();
  if (key === "y" || key === "n") {
    judgements.mark(entry.dataset.image, key === "y");
    entry.nextElementSibling?.querySelector("[data-step]").focus();
    changed();
  } else if (event.key === "Enter") next();
  else if (!moveFocus(byId("grid"), entry, event.key)) return;
  event.preventDefault();
}

const showAll = () =>
  attempt(async () => {
    await showFound();
    await readEstimate();
  });

function installJudging() {
  byId("found-images").addEventListener("toggle", () => attempt(showFound));
  byId("found-images").addEventListener("click", ({ target }) => {
    const image = target.closest("[data-remove]")?.dataset.remove;
    if (image) takeOut(image);
  });
  byId("grid").addEventListener("click", onClick);
  byId("grid").addEventListener("keydown", onKey);
  byId("next").addEventListener("click", next);
  byId("undo").addEventListener("click", undo);
  for (const [name, relevant] of [["all-relevant", true], ["all-irrelevant", false]]) {
    byId(name).addEventListener("click", () => {
      judgements.fill(relevant);
      changed();
    });
  }
  byId("edit").addEventListener("submit", (event) => {
    event.preventDefault();
    const change = { title: byId("cohort-title").value, note: byId("cohort-note").value, shared: byId("cohort-shared").checked };
    attempt(async () => {
      const { title } = await (await send("", change, "PATCH")).json();
      byId("title").textContent = title;
      byId("status").textContent = tr("Saved");
    });
  });
}

const start = () => (mine === undefined ? showAll() : attempt(showBatch));
byId("retry").addEventListener("click", start);
byId("delete")?.addEventListener("click", () => deleteCohort.ask({ id, title: byId("title").textContent }, () => location.assign("/cohorts")));
deleteCohort.install();
if (mine !== undefined) installJudging();
start();
