// The query at the left: its picture, one verdict, and what can be done with it; its menu takes the results away.

import { callParts, state, update } from "../page_state.js";
import { copyText } from "../theme.js";
import { tr } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { openComparison, queryPicture } from "./query_viewer.js";
import { changePart, changeSettings, isStale, shownHits, startAgain } from "./run.js";
import { isAnywhere } from "./search_fields.js";
import { shareKeys, shareParts, summaryOf } from "./verdict.js";

async function copyLink({ query }) {
  const copied = await copyText(location.href);
  const said = copied ? tr("Link copied.") : tr("The browser does not allow copying; copy the link from the address bar.");
  update({ notice: query.image ? said : `${said} ${tr("It has the settings, but not your image or words.")}` });
}

function items(now) {
  const item = (name, title, action) => html`<button type="button" data-save=${name} @click=${action}>${title}</button>`;
  const download = (name, title) => item(name, title, async () => (await import("./answer_downloads.js")).DOWNLOADS[name](now));
  return [
    item("link", tr("Copy link"), () => copyLink(now)),
    download("sheet", tr("Sheet with pictures (HTML)")),
    download("print", tr("Print")),
    download("csv", tr("Table (csv)")),
    download("json", tr("Answer (JSON)")),
    shownHits(now).some((hit) => hit.dicom) ? download("uids", tr("DICOM UIDs (csv)")) : nothing,
  ];
}

const COLOURS = 7;

/** The colours of parts: that of a value's place among those of the collection, so that it is the same in all answers; else one that is free. */
function coloursOf(parts, key, filters) {
  const lists = filters[key] ? [filters[key]] : Object.values(filters);
  const wanted = parts.map(({ name }) => Math.max(...lists.map((values) => values.findIndex(([value]) => value === name)), -1));
  const places = wanted.map((place, index) => (wanted.indexOf(place) === index ? place : -1));
  const free = [...Array(COLOURS).keys()].filter((colour) => !places.includes(colour));
  return parts.map(({ rest }, index) => (rest ? "rest" : places[index] >= 0 && places[index] < COLOURS ? places[index] : (free.pop() ?? 0)));
}

function shareBar({ answer, shareKey: key, expert, facts }) {
  const keys = shareKeys(answer.results);
  if (!keys.length) return nothing;
  const chosen = keys.includes(key) ? key : keys[0];
  const parts = shareParts(answer.results, chosen);
  const words = ({ name, count }) => `${name}: ${count}`;
  const colours = coloursOf(parts, chosen, facts.filters);
  return html`<div class="share-bar" aria-hidden="true">${parts.map((part, index) => html`<span class=${`share share-${colours[index]}`} .style=${`flex-grow: ${part.count}`} title=${words(part)}></span>`)}</div>
    <p class="share-words" id="shares">${tr("Of {count} results:", { count: answer.results.length })} ${parts.map((part, index) => html`<span class="share-word"><i class=${`swatch share-${colours[index]}`}></i>${words(part)}</span>`)}
      ${expert && keys.length > 1 ? html`<select id="share-key" aria-label=${tr("Shares of")} @change=${({ target }) => update({ shareKey: target.value })}>${keys.map((each) => html`<option value=${each} ?selected=${each === chosen}>${each || tr("finding")}</option>`)}</select>` : nothing}</p>`;
}

function verdict(now) {
  const { answer, shownQuery } = now;
  if (!answer?.results.length) return nothing;
  const { level, title, text, caution, tested } = summaryOf(now);
  const isLeftOut = shownQuery.file && answer.query.image_id && !answer.results.some((hit) => hit.image_id === answer.query.image_id);
  return html`<section class=${`verdict ${level ?? ""}`} aria-label=${tr("What the results say together")}>
    ${title ? html`<h2 id="verdict">${title}</h2>` : nothing}
    ${text ? html`<p>${text}</p>` : nothing}
    ${isLeftOut ? html`<p id="left-out">${tr("This picture is in the collection, and left out of its results.")}</p>` : nothing}
    ${level === "outlier" ? nothing : shareBar(now)}
    ${caution ? html`<p id="agreement">${tested ? html`<span class="tested">${tested.text}</span> ` : nothing}${tested?.short ? html`<span class="short">${tested.short} </span>` : nothing}<span>${caution}</span></p>` : nothing}
    ${callParts("lines", now)}
  </section>`;
}

function searchWindow() {
  changePart({ window: state.otherWindow.window });
  update({ otherWindow: null });
}

/** What of the picture is searched with, where it is not all of it, and in which window. */
function partOfPicture({ query, settings, facts, otherWindow }) {
  if (otherWindow) return html`<p class="region-line"><button class="link" type="button" id="search-window" @click=${searchWindow}>${tr("Search in this window")}</button></p>`;
  if (!query.region) return nothing;
  return html`<p class="region-line">${tr("Only the region is searched.")} <button class="link" type="button" id="whole" @click=${() => changePart({ region: null })}>${tr("Whole image")}</button>
    ${isAnywhere(state) ? nothing : html`<span>${tr("It is compared with whole pictures, which finds little: the whole image finds more.")}</span>`}
    ${facts.anywhere && !query.files ? html`<label class="check" for="anywhere"><input type="checkbox" id="anywhere" .checked=${settings.anywhere} @change=${({ target }) => changeSettings({ anywhere: target.checked })} /> ${tr("Anywhere in the image")}</label>` : nothing}</p>`;
}

function actions(now) {
  const { answer, notice } = now;
  const some = Boolean(answer?.results.length);
  const canCompare = some && !now.query.text && answer.results.some(({ site }) => !site);
  return html`<div class="actions">
    <span class="of-answer">${canCompare ? html`<button class="button primary" type="button" id="compare" @click=${() => openComparison()}>${tr("Compare")}</button>` : nothing}
    ${some ? callParts("actions", now) : nothing}</span>
    <button class="button" type="button" popovertarget="query-menu" aria-label=${tr("More")} title=${tr("More")}>•••</button>
    <div class="choices" id="query-menu" popover>
      ${some && !isStale(now) ? items(now) : nothing}
      ${callParts("menu", now)}
      <button type="button" id="new-search" @click=${startAgain}>${tr("New search")}</button>
    </div>
  </div>
  <p class="notice" role="status" id="notice">${notice}</p>`;
}

function progress({ busy }) {
  if (!busy) return nothing;
  const words = busy.share < 0.9 ? tr("Sending the image: {percent} %", { percent: Math.round((busy.share / 0.9) * 100) }) : tr("Searching …");
  return html`<p class="progress"><progress max="1" .value=${busy.share} aria-label=${words}></progress><span>${words}</span></p>`;
}

export function side(now) {
  const { query, sheet } = now;
  if (!query) return nothing;
  return html`<div class=${`query${sheet ? " open" : ""}`}>
    <div class="stage">${query.text ? html`<p class="words-query"><small>${tr("Words")}</small>${query.text}</p>` : queryPicture(now)}</div>
    <button class="sheet-switch" type="button" aria-expanded=${String(Boolean(sheet))} aria-label=${tr("The query and its tools")} @click=${() => update({ sheet: !sheet })}>${sheet ? "⌄" : "⌃"}</button>
    <div class=${`about${isStale(now) ? " stale-answer" : ""}`}>
      ${query.note ? html`<p class="hint" id="input-note">${query.note}</p>` : nothing}
      ${partOfPicture(now)}
      ${progress(now)}
      ${verdict(now)}
      ${actions(now)}
      ${callParts("panels", now)}
    </div>
  </div>`;
}
