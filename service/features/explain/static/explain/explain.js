// Why a result is similar: what matches, on the card under the pointer or focus and on the query.

import { addressIn, fetchJson, formBody, jsonBody } from "../api.js";
import { addPart, state, update } from "../page_state.js";
import { queryViewer } from "../search/query_viewer.js";
import { collectionName, isStale, shownHits } from "../search/run.js";
import { tr } from "../translate.js";
import { html, nothing, render } from "../vendor/lit.js";
import { bars, Explanations, paintings } from "./paint.js";

const NO_DIAGNOSIS = tr("It shows what the search compares, and is no diagnosis.");
const explanations = new Explanations(load);
let shownOn = null; // the card that is explained
let reading = null; // the reading view, once it is open
let readingShares = nothing; // bars of its first result
let isOn = false;
const explained = new Set(); // the query that it was turned on for, as it was opened, and the pictures of its parts

const kind = ({ facts }) => facts.parts.explain?.kind ?? "";

/** True if the results of the query can be explained: not of words or several images. */
const isExplained = (now) => Boolean(kind(now) && now.query && (now.query.image || now.query.file) && !now.query.files);

function load(query, ids) {
  return fetchJson(addressIn(collectionName(), "explain"), query.image ? jsonBody({ image_id: query.image, answers: ids, ...(query.region && { region: query.region }) }) : formBody(query, { answers: ids }));
}

async function explanationOf(image) {
  const images = shownHits(state).map(({ image_id }) => image_id);
  const explanation = isExplained(state) && !isStale(state) ? await explanations.of(state.query, image, images) : null;
  return explanation && !explanation.problem ? explanation : null;
}

async function showOn(card) {
  if (shownOn === card) return;
  hide();
  if (!card || !isOn || !isExplained(state)) return;
  shownOn = card;
  const explanation = await explanationOf(card.dataset.image);
  if (shownOn !== card || !explanation) return;
  const { query, answer } = paintings(explanation, state.query);
  if (answer) cover(card.querySelector(".film img"), answer);
  if (queryViewer()) queryViewer().overlay = query;
  if (!explanation.shares) return;
  const box = document.createElement("div");
  render(bars(explanation.shares), box);
  card.querySelector(".film").append(box.firstElementChild);
}

/** Put a canvas over a picture that fills its parent as far as its sides allow; nothing over one that is missing. */
function cover(picture, canvas) {
  const { naturalWidth: width, naturalHeight: height } = picture ?? {};
  if (!width) return;
  canvas.className = "match";
  canvas.setAttribute("aria-hidden", "true");
  const side = Math.max(width, height);
  Object.assign(canvas.style, { width: `${(100 * width) / side}%`, height: `${(100 * height) / side}%` });
  picture.after(canvas);
}

function hide() {
  if (!shownOn) return;
  for (const each of shownOn.querySelectorAll("canvas.match, .part-bars")) each.remove();
  if (queryViewer()) queryViewer().overlay = null;
  shownOn = null;
}

const pictureOf = (query) => query?.file ?? query?.image;

/** Turn off with another query: colours that nobody asked for could be taken for a finding. */
function renew() {
  hide();
  if (!isOn) return;
  if (explained.has(state.opened) || explained.has(pictureOf(state.shownQuery))) explained.add(state.opened).add(pictureOf(state.shownQuery));
  else toggle();
}

function toggle() {
  isOn = !isOn;
  explained.clear();
  explained.add(state.opened).add(pictureOf(state.query));
  hide();
  update(state.sheet ? { sheet: !isOn, notice: isOn ? `${hintOf(state)} ${NO_DIAGNOSIS}` : "" } : {}); // on a phone it covers the results
  showOn(document.activeElement?.closest?.("#columns .card") ?? null);
  if (reading) drawReading(reading);
}

// In the reading view

/** Whether a viewer shows what was searched with. */
const isQuery = ({ slice }, { image, file, frame }) => Boolean(slice) && (image ? slice.id === image : slice.file === file && (slice.frame ?? 1) === (frame ?? 1));

async function drawReading(view) {
  reading = view;
  if (!view.dialog) return;
  for (const viewer of view.viewers) viewer.overlay = null;
  readingShares = nothing;
  if (isOn && isExplained(state)) await Promise.all(view.shown.map((shown, index) => drawOver(view, shown, !index)));
  view.draw();
}

/** Draw over a result, and for the first one over the query too: maps are of the images that were compared. */
async function drawOver(view, shown, isFirst) {
  const { result, viewer } = shown;
  const explanation = await explanationOf(result.id);
  if (!explanation || !isOn || !view.shown.some((each) => each.result === result && each.viewer === viewer)) return;
  const drawn = paintings(explanation, state.shownQuery);
  if (viewer.picture && view.imageOf(shown) === result.id) viewer.overlay = drawn.answer;
  const [query] = view.viewers;
  if (isFirst && explanation.shares) readingShares = bars(explanation.shares);
  if (isFirst && query.picture && isQuery(query, state.shownQuery)) query.overlay = drawn.query;
}

const readingSwitches = () => (isExplained(state) ? html`<button class="button small" type="button" title="H" aria-pressed=${String(isOn)} @click=${toggle}>${tr("Why similar")}</button>` : nothing);

function readingExtras(view) {
  if (!isOn || !isExplained(state)) return nothing;
  const fade = ({ target }) => view.viewers.forEach((viewer) => Object.assign(viewer, { overlayOpacity: target.value / 100 }).redraw());
  const isAway = view.shown.some((shown) => shown.viewer?.slice && view.imageOf(shown) !== shown.result.id) || (view.viewers[0]?.slice && !isQuery(view.viewers[0], state.shownQuery));
  return html`<section class="explanation" aria-label=${tr("What matches")}><label>${tr("Overlay")} <input type="range" min="0" max="100" value="100" @input=${fade} /></label>
    <div class="part-shares">${readingShares}</div>${isAway ? html`<p>${tr("Only the slices that were compared have colours: scroll back to them.")}</p>` : nothing}<p class="hint">${kind(state) === "places" ? tr("Places in colour match between both pictures, yellow best.") : ""} ${NO_DIAGNOSIS}</p></section>`;
}

// On the page

const actions = (now) => (isExplained(now) ? html`<button class="button" type="button" id="explain" aria-pressed=${String(isOn)} @click=${toggle}>${tr("Why similar")}</button>` : nothing);

const hintOf = (now) => (kind(now) === "places" ? tr("Point at or tap a result: places in colour match between it and the query, yellow best.") : tr("Point at or tap a result: the bars show what its distance consists of, the lines the strongest edges."));

function panels(now) {
  if (!isOn || !isExplained(now) || !now.answer || String(now.notice).startsWith(hintOf(now))) return nothing;
  return html`<p class="hint" id="explain-hint">${hintOf(now)} ${NO_DIAGNOSIS}</p>`;
}

function install() {
  const area = document.getElementById("found");
  const cardAt = ({ target }) => target.closest("#columns .grid > li")?.querySelector(".card") ?? null;
  area.addEventListener("pointerover", (event) => showOn(cardAt(event)));
  area.addEventListener("focusin", (event) => showOn(cardAt(event)));
  area.addEventListener("pointerleave", hide);
  area.addEventListener("focusout", hide);
}

const keys = () => ({ h: toggle });
const keyWords = () => [["H", tr("Why similar: what matches, on the result under the pointer or focus")]];

addPart({ actions, panels, install, keys, keyWords, answer: renew, reading: drawReading, readingSwitches, readingExtras, readingKeys: keys });
