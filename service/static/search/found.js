// The results at the right: chips, pictures, what went wrong, or the start page; and the bar of judgements, as soon as something is marked.

import { imageAddress } from "../api.js";
import { card } from "../card.js";
import { problemBox } from "../list_page.js";
import { callParts, state, update } from "../page_state.js";
import { asText, changes } from "../rounds.js";
import { isTouched } from "../theme.js";
import { tr, trn } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { indexWithin } from "../viewer/groups.js";
import { slicesOfSeries } from "../viewer/picture_source.js";
import { chips, expertFigures, expertPanel } from "./chips.js";
import { openComparison } from "./query_viewer.js";
import { addressOf, changeSettings, clearMarks, collectionName, isStale, leftOf, mark, refine, searchWith, showMore, shownHits, startSearch, undoRound } from "./run.js";
import { searchedMarks } from "./search_fields.js";

function round(changed, index) {
  const values = { round: index + 1, count: changed.size };
  return html`<li><button class="pill" type="button" data-round=${index} aria-label=${tr("Undo round {round}, {count} judged", values)} @click=${() => undoRound(index)}>${tr("Round {round} · {count}", values)} <span aria-hidden="true">×</span></button></li>`;
}

function markBar(now) {
  const { marks, rounds } = now;
  if (!marks.size && !rounds.length) return nothing;
  const liked = [...marks.values()].filter((value) => value > 0).length;
  const words = [liked && trn("{count} like this", "{count} like this", liked), marks.size - liked && trn("{count} not", "{count} not", marks.size - liked)].filter(Boolean).join(", ");
  return html`<div class="mark-bar" id="rounds" role="group" aria-label=${tr("Judgements")}>
    <p role="status" id="judged">${words || tr("Nothing marked")}</p>
    <button class="button primary" type="button" id="learn" ?disabled=${asText(marks) === searchedMarks(now)} @click=${refine}>${tr("Refine")}</button>
    ${callParts("marked", now)}
    <button class="button" type="button" id="unjudge" @click=${clearMarks}>${tr("Clear")}</button>
    ${rounds.length ? html`<ol class="rounds" role="list" aria-label=${tr("Rounds")}>${changes(rounds).map(round)}</ol>` : nothing}
  </div>`;
}

const FIRST = 48; // cards of the first paint; more than a screen shows

const actionsOf = (list) => ({ open: (hit) => openComparison(hit, shownHits(state, list)), mark: (hit, value) => mark(hit.image_id, value), search: (hit) => searchWith(hit.image_id) });
const ACTIONS = { before: actionsOf("before"), after: actionsOf("after") };

function more(hit, { members }) {
  const left = leftOf(hit, members.get(hit.image_id));
  if (!left && !members.get(hit.image_id)?.members.length) return nothing;
  const [words, name] = left ? [tr("+{count} more", { count: left }), tr("{count} more of the group of rank {rank}", { count: left, rank: hit.rank })] : [tr("Fewer"), tr("Only the first of the group of rank {rank}", hit)];
  return html`<button class="link more" type="button" data-more=${hit.image_id} aria-label=${name} @click=${() => showMore(hit)}>${words}</button>`;
}

function result(hit, now, list) {
  const marked = now.query.text || hit.site || list === "before" || isStale(now) ? null : (now.marks.get(hit.image_id) ?? 0);
  const own = !hit.site;
  return html`<li class=${hit.site ? "elsewhere" : marked === 1 ? "liked" : marked === -1 ? "unliked" : ""}>${card(hit, {
    href: own ? addressOf({ image: hit.image_id }) : nothing,
    number: hit.rank,
    slice: now.slices.get(hit.image_id) ?? null,
    marked,
    over: callParts("overCard", hit, now),
    below: html`${hit.patient && hit.patient === now.answer.query.patient ? html`<span class="hint">${tr("same patient")}</span>` : nothing}${list === "before" ? nothing : more(hit, now)}${now.expert ? expertFigures(hit, now, list) : nothing}`,
    actions: own ? ACTIONS[list] : {},
  })}</li>`;
}

const TITLES = { before: tr("Before re-ranking"), after: tr("After re-ranking") };

function grid(now, list) {
  const title = now.answer.before && (list === "before" || now.settings.view === "both") ? TITLES[list] : tr("Results");
  const hits = shownHits(now, list);
  const drawn = now.painted === now.answer ? hits : hits.slice(0, FIRST);
  return html`<div class="column" data-list=${list}>${now.settings.view === "both" ? html`<h2>${title}</h2>` : nothing}
    <ol class=${`grid${now.small ? " small" : ""}`} role="list" aria-label=${title}>${repeat(drawn, ({ image_id, site }) => `${site ?? ""}/${image_id}`, (hit) => result(hit, now, list))}</ol></div>`;
}

function lists(now) {
  const { answer, settings, busy } = now;
  if (!answer) return nothing;
  if (!answer.results.length) return noResults(now);
  const view = answer.before ? settings.view : "after";
  const stale = busy || isStale(now);
  return html`<div class=${`columns ${view}${stale ? " stale" : ""}`} id="columns" aria-busy=${stale ? "true" : nothing}>${(view === "both" ? ["before", "after"] : [view]).map((list) => grid(now, list))}</div>`;
}

function noResults({ settings: { where }, fields }) {
  const others = fields.exclude_own_study ? tr("The collection has no images of other studies.") : tr("The collection has no other images.");
  return html`<section class="state" id="nothing"><h2>${tr("No results")}</h2>
    <p>${where.length ? tr("No other image of the collection matches {conditions}.", { conditions: where.join(", ") }) : others}</p>
    ${fields.exclude_own_study ? html`<button class="button" type="button" id="with-own-study" @click=${() => changeSettings({ ownStudy: true })}>${tr("Search in the query's own study too")}</button>` : nothing}
    ${where.length ? html`<button class="button" type="button" id="unfilter" @click=${() => changeSettings({ where: [] })}>${tr("Search without filters")}</button>` : nothing}</section>`;
}

/** The words [title, kinds] that invite a query; by touch nothing is dropped or pasted. */
function invitation(ofSeries, byTouch) {
  if (ofSeries) return [byTouch ? tr("Choose a CT series") : tr("Drop a CT series here"), tr("Folder or ZIP archive of its DICOM slices, or NIfTI")];
  if (byTouch) return [tr("Choose an image"), tr("PNG, JPEG, TIFF, DICOM, NIfTI or a ZIP archive")];
  return [tr("Drop an image here"), tr("or choose, or paste one: PNG, JPEG, TIFF, DICOM, NIfTI, a series, a folder or a ZIP archive")];
}

function start({ facts }) {
  const film = ({ image, title }) => html`<li>${card({ image_id: image, labels: { label: title }, links: { thumbnail: imageAddress(collectionName(), image, "/thumbnail") } }, { href: addressOf({ image }), actions: { open: () => startSearch({ image }) } })}</li>`;
  const [title, kinds] = invitation(facts.of_series, isTouched());
  return html`<section class="start" id="start">
    <button class="drop" type="button" id="drop" @click=${() => document.getElementById("file").click()}>
      <svg viewBox="0 0 48 48" aria-hidden="true"><path d="M24 33V11m0 0-8 8m8-8 8 8M9 33v4a3 3 0 0 0 3 3h24a3 3 0 0 0 3-3v-4"></path></svg>
      <b>${title}</b><span>${kinds}</span></button>
    ${facts.images
      ? html`<p class="hint">${tr("{count} images of {collection}. No image at hand? Begin with one of these:", { count: facts.images, collection: facts.collection })}</p><ul class="grid examples" role="list">${facts.examples.map(film)}</ul>`
      : html`<h2>${tr("This collection is empty")}</h2><p>cbir index FOLDER --collection COLLECTION</p>`}
  </section>`;
}

const skeleton = () => html`<ol class="grid waiting" aria-hidden="true">${Array.from({ length: 20 }, () => html`<li><span class="card"><span class="film"></span></span></li>`)}</ol>`;

export function found(now) {
  const { query, answer, busy, expert, problem, dragging } = now;
  return html`${dragging ? html`<div class="drop-here" aria-hidden="true">${tr("Drop to search")}</div>` : nothing}
    ${query || answer ? chips(now) : nothing}
    ${expert && (query || answer) ? expertPanel(now) : nothing}
    ${problemBox(now)}
    ${query || answer ? (answer || problem ? lists(now) : busy ? skeleton() : nothing) : start(now)}
    ${callParts("results", now)}
    ${markBar(now)}`;
}

const LEAST_DRAG = 6; // pixels of a drag; less is a click

let scrubbed = null; // {hit, answer, x, latest, start, width, moved}: x where the pointer was pressed, latest where it is

function beginScrub(event) {
  const film = event.target.closest("[data-stack]");
  const hit = film && !event.button && shownHits(state).find(({ image_id }) => image_id === film.dataset.stack);
  if (hit?.dicom) scrubbed = { hit, answer: state.answer, x: event.clientX, width: film.clientWidth, moved: false };
}

async function scrub(event) {
  if (!scrubbed || (!scrubbed.moved && Math.abs(event.clientX - scrubbed.x) < LEAST_DRAG)) return;
  const current = scrubbed;
  Object.assign(current, { moved: true, latest: event.clientX });
  const slices = await slicesOfSeries(collectionName(), current.hit.dicom).catch(() => []);
  if (slices.length < 2 || state.answer !== current.answer) return; // a short drag can end before its slices are known
  const shown = state.slices.get(current.hit.image_id)?.id ?? current.hit.image_id;
  current.start ??= slices.findIndex(({ id }) => id === shown);
  const steps = Math.round(((current.latest - current.x) / current.width) * (slices.length - 1)); // the whole width goes through the whole series
  const index = indexWithin(current.start + steps, slices.length);
  const { id } = slices[index];
  const slice = { number: index + 1, count: slices.length, id, address: imageAddress(collectionName(), id, "/thumbnail") };
  if (slice.id !== shown) update({ slices: new Map(state.slices).set(current.hit.image_id, slice) });
}

export function installScrubbing(area) {
  let suppress = false;
  area.addEventListener("pointerdown", (event) => {
    suppress = false;
    beginScrub(event);
  });
  document.addEventListener("pointermove", scrub);
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => {
      suppress = Boolean(scrubbed?.moved);
      scrubbed = null;
    });
  }
  area.addEventListener("click", (event) => suppress && event.target.closest("[data-stack]") && (event.preventDefault(), event.stopPropagation()), true);
}
