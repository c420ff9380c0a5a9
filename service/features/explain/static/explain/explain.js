// Why a result is similar: what matches, on the card under the pointer or focus and on the query.

import { addressIn, form, jsonBody, request } from "../api.js";
import { addPart } from "../page_parts.js";
import { state, update } from "../page_state.js";
import { queryViewer } from "../search/query_viewer.js";
import { collectionName, isStale, shownHits } from "../search/run.js";
import { remember, remembered } from "../theme.js";
import { tr } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { Explanations } from "./explanations.js";
import { cover, uncover } from "./overlay.js";
import { bars } from "./parts.js";
import { paintings } from "./paintings.js";
import { ReadingPart } from "./reading_part.js";

const STORAGE_KEY = "explain";

const explanations = new Explanations(load);
const readingPart = new ReadingPart({ explanationOf, isShown: () => isOn && isExplained(state), isOffered: () => isExplained(state), toggle });
let shownOn = null; // the card that is explained
let isOn = remembered(STORAGE_KEY) === "on";

const kind = ({ facts }) => facts.parts.explain?.kind ?? "";

/** True if the results of the query can be explained: not of words or several images. */
const isExplained = (now) => Boolean(kind(now) && now.query && (now.query.image || now.query.file) && !now.query.files);

async function load(query, ids) {
  let options;
  if (query.image) options = jsonBody({ image_id: query.image, answers: ids, ...(query.region && { region: query.region }) });
  else {
    const body = form(query);
    for (const id of ids) body.append("answers", id);
    options = { method: "POST", body };
  }
  return (await request(addressIn(collectionName(), "explain"), options)).json();
}

/** The explanation of a result; null if there is none. */
export async function explanationOf(image) {
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
  if (explanation.shares) card.querySelector(".film").append(bars(explanation.shares));
}

function hide() {
  if (!shownOn) return;
  uncover(shownOn.querySelector(".film img"));
  shownOn.querySelector(".part-bars")?.remove();
  if (queryViewer()) queryViewer().overlay = null;
  shownOn = null;
}

/** Turn explanations on or off. */
function toggle() {
  isOn = !isOn;
  remember(STORAGE_KEY, isOn ? "on" : "off");
  hide();
  update({});
  showOn(document.activeElement?.closest?.("#columns .card") ?? null);
  readingPart.draw();
}

/** The button below the query. */
const actions = (now) => (isExplained(now) ? html`<button class="button" type="button" id="explain" aria-pressed=${String(isOn)} @click=${toggle}>${tr("Why similar")}</button>` : nothing);

/** What to do, and what it shows. */
function panels(now) {
  if (!isOn || !isExplained(now) || !now.answer) return nothing;
  const words = kind(now) === "places" ? tr("Point at a result: places in colour match between it and the query, yellow best.") : tr("Point at a result: the bars show what its distance consists of, the lines the strongest edges.");
  return html`<p class="hint" id="explain-hint">${words} ${tr("It shows what the search compares, and is no diagnosis.")}</p>`;
}

/** Connect the cards. */
function install() {
  const area = document.getElementById("found");
  const cardAt = ({ target }) => target.closest("#columns .grid > li")?.querySelector(".card") ?? null;
  area.addEventListener("pointerover", (event) => showOn(cardAt(event)));
  area.addEventListener("focusin", (event) => showOn(cardAt(event)));
  area.addEventListener("pointerleave", hide);
  area.addEventListener("focusout", hide);
}

addPart({ actions, panels, install, keys: () => ({ h: toggle }), keyWords: () => [["H", tr("Why similar: what matches, on the result under the pointer or focus")]], answer: hide, reading: (view) => readingPart.show(view) });
