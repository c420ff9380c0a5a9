// The query at the left: its picture, one verdict, and what can be done with it; its menu takes the results away.

import { titleOf } from "../card.js";
import { callParts, state, update } from "../page_state.js";
import { copyText } from "../theme.js";
import { tr } from "../translate.js";
import { html, nothing, ref } from "../vendor/lit.js";
import { openComparison, showSource, viewerSource } from "./query_viewer.js";
import { changePart, changeSettings, isStale, shownHits, startAgain } from "./run.js";

const USUAL_KEY = "label";
const PERSON_KEYS = ["age", "sex", "series_description"];
const FINDING = ""; // in place of a label key
const MOST_VALUES = 7; // more are one part, "other values"
const FAMILIAR = 0.2; // likeness of four in five images of a collection
const UNUSUAL = 0.05;
const NEAREST = 10; // results that agreement is counted among, as the service counts it

/** [value, count] of the different values of a list. */
function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts];
}

/** The keys whose shares may be shown: the finding of the cards, "label", the most frequent; those of persons, which say nothing of a picture, last. */
export function shareKeys(results) {
  const order = ([a, countOfA], [b, countOfB]) =>
    (b === USUAL_KEY) - (a === USUAL_KEY) || PERSON_KEYS.includes(a) - PERSON_KEYS.includes(b) || countOfB - countOfA;
  const keys = counted(results.flatMap(({ labels }) => Object.keys(labels))).sort(order).map(([key]) => key);
  return results.some(({ card }) => card?.finding) ? [FINDING, ...keys] : keys;
}

/** The parts {name, count, rest} of a key among results, the most frequent first; rest: other values together, or results without one. */
export function shareParts(results, key) {
  const findingOf = (hit) => (hit.card?.finding ? titleOf(hit) : undefined);
  const labelOf = ({ labels }) => (Object.hasOwn(labels, key) ? labels[key] : undefined); // a key may be "constructor"
  const counts = counted(results.map(key === FINDING ? findingOf : labelOf));
  const sorted = counts.filter(([value]) => value !== undefined).sort((a, b) => b[1] - a[1]);
  const parts = sorted.splice(0, MOST_VALUES).map(([name, count]) => ({ name, count, rest: false }));
  const [others, known] = [sorted, parts].map((list) => list.reduce((sum, each) => sum + (each.count ?? each[1]), 0));
  if (others) parts.push({ name: tr("other values"), count: others, rest: true });
  const missing = results.length - known - others;
  if (missing) parts.push({ name: key ? tr("without {key}", { key }) : tr("without a finding"), count: missing, rest: true });
  return parts;
}

/** How like the collection a query is {title, level}: level is "usual", "unusual" or "outlier"; null if that is not known. */
export function verdictOf({ likeness, outlier }) {
  if (likeness === null || likeness === undefined) return null;
  if (outlier) return { level: "outlier", title: tr("Nothing here looks like this"), text: tr("These are the least unlike images, not similar ones.") };
  const tenths = Math.round(likeness * 10);
  if (likeness < UNUSUAL) return { level: "unusual", title: tr("Unusual here: few images are as far from all others") };
  if (likeness < FAMILIAR || tenths < 1) return { level: "unusual", title: tr("Less usual here: most images have a closer match") };
  return { level: "usual", title: tr("Familiar: closer than {tenths} in 10 images here", { tenths: Math.min(tenths, 9) }) };
}

/** The agreement of an answer on its most frequent finding, else on its usual label; undefined without one. */
export function agreementOn({ results, agreement }) {
  const [key] = shareKeys(results);
  if (key === undefined) return undefined;
  const [first] = shareParts(results, key);
  return agreement.find((each) => each.value === first.name && (key === FINDING || each.key === key));
}

/** The value that most of the nearest results have, where it leads among all, or that they do not agree; "" where nothing is known of them. */
export function headlineOf({ results, agreement }) {
  const nearest = results.slice(0, NEAREST);
  const [key] = shareKeys(results);
  if (key === undefined || PERSON_KEYS.includes(key)) return "";
  const [near, all] = [nearest, results].map((list) => shareParts(list, key).filter(({ rest }) => !rest));
  if (near.reduce((sum, { count }) => sum + count, 0) < 2) return "";
  const [first, ofAll] = [near[0], all[0]];
  const { value, agreeing, answers } = agreementOn({ results, agreement }) ?? { value: first.name, agreeing: first.count, answers: nearest.length };
  if (value !== ofAll.name || agreeing <= answers / 2) return tr("The results do not agree");
  return tr("{agreeing} of the {answers} nearest: {value}", { agreeing, answers, value });
}

/** How often an agreement {right, low, high, images} like that of the first results was right; "" where little is known. */
export function agreementOf(agreement) {
  if (!agreement || agreement.agreeing <= agreement.answers / 2 || agreement.right === null || agreement.low === undefined || agreement.low === null) return "";
  const { right, low, high, images } = agreement;
  const percent = { right: Math.min(Math.round(right * 100), 99), low: Math.floor(low * 100), high: Math.ceil(high * 100) };
  return tr("Of {images} such searches with images here, {right} % were right ({low} to {high} %).", { images, ...percent });
}

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

function pictureOf(now) {
  const { query, busy, facts } = now;
  if (query.text) return html`<p class="words-query"><small>${tr("Words")}</small>${query.text}</p>`;
  const { source, waits } = viewerSource(now);
  return html`<cbir-viewer tools=${query.files || facts.of_series ? "window zoom measure" : "window zoom measure region"} label=${tr("The query image")} ${ref((viewer) => showSource(viewer, source))}></cbir-viewer>
    ${waits ? html`<span class="waits"><span>${busy ? tr("Reading the picture …") : ""}</span></span>` : nothing}`;
}

const colour = ({ rest }, index) => (rest ? "rest" : index);

function shareBar(answer, key, expert) {
  const keys = shareKeys(answer.results);
  if (!keys.length) return nothing;
  const chosen = keys.includes(key) ? key : keys[0];
  const parts = shareParts(answer.results, chosen);
  const words = ({ name, count }) => `${name} ${count}`;
  return html`<div class="share-bar" aria-hidden="true">${parts.map((part, index) => html`<span class=${`share share-${colour(part, index)}`} .style=${`flex-grow: ${part.count}`} title=${words(part)}></span>`)}</div>
    <p class="share-words" id="shares">${parts.map((part, index) => html`<span class="share-word"><i class=${`swatch share-${colour(part, index)}`}></i>${words(part)}</span>`)} ${tr("of {count} results.", { count: answer.results.length })}
      ${expert && keys.length > 1 ? html`<select id="share-key" aria-label=${tr("Shares of")} @change=${({ target }) => update({ shareKey: target.value })}>${keys.map((each) => html`<option value=${each} ?selected=${each === chosen}>${each || tr("finding")}</option>`)}</select>` : nothing}</p>`;
}

function verdict(now) {
  const { answer, expert, shareKey, settings } = now;
  if (!answer?.results.length) return nothing;
  const found = verdictOf(answer.query);
  const outlier = found?.level === "outlier";
  const says = !outlier && !settings.where.length; // what a filter asks for, all results have
  const headline = says ? headlineOf(answer) : "";
  const agreement = says ? agreementOf(agreementOn(answer)) : "";
  return html`<section class=${`verdict ${found?.level ?? ""}`} aria-label=${tr("What the results say together")}>
    ${headline || found ? html`<h2 id="verdict">${headline || found.title}</h2>` : nothing}
    ${found?.text ? html`<p>${found.text}</p>` : nothing}
    ${outlier ? nothing : shareBar(answer, shareKey, expert)}
    ${agreement ? html`<p id="agreement">${agreement}</p>` : nothing}
    ${headline && found ? html`<p id="likeness">${found.title}</p>` : nothing}
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
    <div class="stage">${pictureOf(now)}</div>
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
