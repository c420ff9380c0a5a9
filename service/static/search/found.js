// The results at the right: chips, pictures, what went wrong, or the start page.

import { imageAddress } from "../api.js";
import { card } from "../card.js";
import { callParts } from "../page_parts.js";
import { state } from "../page_state.js";
import { tr } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { chips } from "./chips.js";
import { openComparison } from "./comparison.js";
import { expertFigures, expertPanel } from "./expert.js";
import { markBar } from "./mark_bar.js";
import { addressOf, changeSettings, collectionName, isStale, mark, run, searchWith, showMore, shownHits, startSearch } from "./run.js";

const FIRST = 48; // cards of the first paint; more than a screen shows

const actionsOf = (list) => ({ open: (hit) => openComparison(hit, shownHits(state, list)), mark: (hit, value) => mark(hit.image_id, value), search: (hit) => searchWith(hit.image_id) });
const ACTIONS = { before: actionsOf("before"), after: actionsOf("after") };

/** A button that shows more of the group of a hit. */
function more(hit, { members }) {
  const left = (members.get(hit.image_id)?.group ?? hit.group)?.more;
  if (!left) return nothing;
  return html`<button class="link more" type="button" data-more=${hit.image_id} aria-label=${tr("{count} more of the group of rank {rank}", { count: left, rank: hit.rank })} @click=${() => showMore(hit)}>${tr("+{count} more", { count: left })}</button>`;
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
    below: html`${list === "before" ? nothing : more(hit, now)}${now.expert ? expertFigures(hit, now, list) : nothing}`,
    actions: own ? ACTIONS[list] : {},
  })}</li>`;
}

function grid(now, list, title) {
  const hits = shownHits(now, list);
  const drawn = now.painted === now.answer ? hits : hits.slice(0, FIRST);
  return html`<div class="column" data-list=${list}>${now.settings.view === "both" ? html`<h2>${title}</h2>` : nothing}
    <ol class=${`grid${now.small ? " small" : ""}`} role="list" aria-label=${title}>${repeat(drawn, ({ image_id, site }) => `${site ?? ""}/${image_id}`, (hit) => result(hit, now, list))}</ol></div>`;
}

/** The lists that are shown. */
function lists(now) {
  const { answer, settings, busy } = now;
  if (!answer) return nothing;
  if (!answer.results.length) return noResults(now);
  const both = answer.before && settings.view === "both";
  const list = answer.before && settings.view === "before" ? "before" : "after";
  const stale = busy || isStale(now);
  return html`<div class=${`columns${both ? " both" : ""}${stale ? " stale" : ""}`} id="columns" aria-busy=${stale ? "true" : nothing}>
    ${both ? grid(now, "before", tr("Before re-ranking")) : nothing}
    ${both ? grid(now, "after", tr("After re-ranking")) : grid(now, list, list === "before" ? tr("Before re-ranking") : tr("Results"))}
  </div>`;
}

function noResults({ settings: { where }, fields }) {
  const others = fields.exclude_own_study ? tr("The collection has no images of other studies.") : tr("The collection has no other images.");
  return html`<section class="state" id="nothing"><h2>${tr("No results")}</h2>
    <p>${where.length ? tr("No other image of the collection matches {conditions}.", { conditions: where.join(", ") }) : others}</p>
    ${fields.exclude_own_study ? html`<button class="button" type="button" id="with-own-study" @click=${() => changeSettings({ ownStudy: true })}>${tr("Search in the query's own study too")}</button>` : nothing}
    ${where.length ? html`<button class="button" type="button" id="unfilter" @click=${() => changeSettings({ where: [] })}>${tr("Search without filters")}</button>` : nothing}</section>`;
}

function problemBox({ problem, query }) {
  if (!problem) return nothing;
  return html`<section class="state problem" id="problem" role="alert"><h2>${problem.title}</h2><p>${problem.message}</p>
    ${problem.temporary ? html`<button class="button" type="button" id="retry" @click=${() => (query ? run() : location.reload())}>${tr("Try again")}</button>` : nothing}</section>`;
}

function start({ facts }) {
  const film = ({ image, title }) => html`<li>${card({ image_id: image, labels: { label: title }, links: { thumbnail: imageAddress(collectionName(), image, "/thumbnail") } }, { href: addressOf({ image }), actions: { open: () => startSearch({ image }) } })}</li>`;
  const byTouch = matchMedia("(hover: none)").matches;
  const invitation = facts.of_series ? tr("Drop a CT series here") : byTouch ? tr("Choose an image") : tr("Drop an image here");
  const kinds = facts.of_series ? tr("Folder or ZIP archive of its DICOM slices, or NIfTI") : tr("or choose, or paste one: PNG, JPEG, TIFF, DICOM, NIfTI, a series, a folder or a ZIP archive");
  return html`<section class="start" id="start">
    <button class="drop" type="button" id="drop" @click=${() => document.getElementById("file").click()}>
      <svg viewBox="0 0 48 48" aria-hidden="true"><path d="M24 33V11m0 0-8 8m8-8 8 8M9 33v4a3 3 0 0 0 3 3h24a3 3 0 0 0 3-3v-4"></path></svg>
      <b>${invitation}</b><span>${kinds}</span></button>
    ${facts.images
      ? html`<p class="hint">${tr("{count} images of {collection}. No image at hand? Begin with one of these:", { count: facts.images, collection: facts.collection })}</p><ul class="grid examples" role="list">${facts.examples.map(film)}</ul>`
      : html`<h2>${tr("This collection is empty")}</h2><p>cbir index FOLDER --collection COLLECTION</p>`}
  </section>`;
}

const skeleton = () => html`<ol class="grid waiting" aria-hidden="true">${Array.from({ length: 20 }, () => html`<li><span class="card"><span class="film"></span></span></li>`)}</ol>`;

/** The right column for a state. */
export function found(now) {
  const { query, answer, busy, expert, problem, dragging } = now;
  return html`${dragging ? html`<div class="drop-here" aria-hidden="true">${tr("Drop to search")}</div>` : nothing}
    ${query || answer ? chips(now) : nothing}
    ${expert && (query || answer) ? expertPanel(now) : nothing}
    ${problemBox(now)}
    ${query || answer ? (answer || problem ? lists(now) : busy ? skeleton() : nothing) : problem ? nothing : start(now)}
    ${callParts("results", now)}
    ${markBar(now)}`;
}
