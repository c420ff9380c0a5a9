// The page of a cohort: rounds of judgements, progress, changing and deleting it.

import { fetchJson, jsonBody, request, searchAddress } from "../api.js";
import { card, neighbour, titleOf } from "../card.js";
import { attempt, changeAndRead, problemBox } from "../list_page.js";
import { state, update } from "../page_state.js";
import { judged } from "../rounds.js";
import { apiAddress, changeForm, deleteButton, lookCloser, savedFacts } from "../saved/own.js";
import { tr, trn } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";

/** Belongs, does not, open: what a tap on the picture goes through. */
export const stepped = (marks, id) => judged(marks, id, { 1: -1, "-1": 0 }[marks.get(id)] ?? 1);

/** The judgements of all images; those that were open have this one. */
export const filled = (marks, ids, value) => new Map(ids.map((id) => [id, marks.get(id) ?? value]));

/** In the form of the API, in the order of the images. */
export const asList = (marks, ids) => ids.filter((id) => marks.has(id)).map((id) => ({ image_id: id, relevant: marks.get(id) > 0 }));

const MOST = 200; // points

/** Numbers found after each judgement of a text such as "1101", from 0. */
export function foundAfter(history) {
  let found = 0;
  return [0, ...Array.from(history, (each) => (found += Number(each)))];
}

/** The points of a polyline: counts in a box of width and height, with a margin of `inset`. */
export function curvePoints(counts, { width, height, inset, top }) {
  const last = Math.max(counts.length - 1, 1);
  const most = Math.max(top, counts.at(-1), 1);
  const step = Math.max(1, Math.ceil(counts.length / MOST));
  const kept = counts.map((count, index) => [index, count]).filter(([index]) => index % step === 0 || index === counts.length - 1);
  const x = (index) => inset + (index / last) * (width - 2 * inset);
  const y = (count) => height - inset - (count / most) * (height - 2 * inset);
  return { line: kept.map(([index, count]) => `${x(index).toFixed(1)},${y(count).toFixed(1)}`).join(" "), level: (count) => y(Math.min(count, most)) };
}

const SHOWN = 480; // images found
const FORMATS = { csv: "csv", dicom: tr("DICOM UIDs (JSON)"), monai: "MONAI Label", coco: "COCO", "label-studio": "Label Studio" };
const STATES = { 1: tr("belongs"), 0: tr("not judged"), "-1": tr("does not belong") };
const ADVICE = {
  "nearly complete": tr("Nearly complete: more than 90 % are probably found. Go on if each one counts."),
  complete: tr("You can stop: at least 95 % are probably found."),
};

export const begin = (facts) => ({
  kind: "cohorts",
  saved: facts.cohort,
  history: facts.history, // "1" or "0" for each judged image
  batch: null, // images to judge
  marks: new Map(),
  images: null, // that were found, the latest first, once they are asked for
  estimate: null,
});

const address = (part) => apiAddress("cohorts", state.saved.id, part);
const send = (part, body) => request(address(part), body ? jsonBody(body) : { method: "POST" });
const digits = (images) => images.map(({ relevant }) => (relevant ? "1" : "0")).join("");
const ids = () => state.batch.map(({ image_id }) => image_id);

async function readImages() {
  const { images } = await fetchJson(address(state.images ? "?cards=true" : ""));
  update({ history: digits(images), ...(state.images && { images: images.filter(({ relevant }) => relevant).slice(-SHOWN).reverse() }) });
}

async function readBatch() {
  const { items, estimate } = await fetchJson(address("/batch?cards=true"), { method: "POST" });
  update({ batch: items, estimate, marks: new Map(), said: trn("{count} image to judge", "{count} images to judge", items.length) });
  if (state.images) await readImages();
}

async function showFound() {
  update({ images: state.images ?? [] });
  await readImages();
  update({ estimate: await fetchJson(address("/estimate")) });
}

/** Load what is judged next, or for others what was found. */
export function start() {
  addEventListener("beforeunload", (event) => state.marks.size && event.preventDefault()); // marks that are not sent
  attempt(state.saved.mine ? readBatch : showFound);
}

const pictureAt = (index) => document.querySelectorAll("#grid .card")[index];

function next() {
  const judgements = asList(state.marks, ids());
  if (!judgements.length) return;
  const change = async () => {
    await send("/judgements", { judgements });
    update({ history: state.history + digits(judgements), marks: new Map() });
  };
  changeAndRead(change, async () => {
    await readBatch();
    pictureAt(0)?.focus();
    scrollTo(0, 0);
  });
}

function undo() {
  if (state.marks.size) return update({ marks: new Map() });
  changeAndRead(() => send("/undo"), async () => {
    if (!state.images) await readImages(); // else the batch comes with them
    await readBatch();
  });
}

function leave() {
  update({ marks: new Map() });
  location.assign("/saved#cohorts");
}

const takeOut = ({ image_id: id }) => changeAndRead(() => send("/judgements", { judgements: [{ image_id: id, relevant: false }] }), showFound);

function onKey(event) {
  const card = event.target.closest("li")?.querySelector(".card");
  if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = [...event.currentTarget.children].indexOf(card.parentElement);
  const mark = (value) => () => {
    update({ marks: judged(state.marks, ids()[at], value) });
    pictureAt(at + 1)?.focus();
  };
  const other = neighbour(card, event.key);
  const actions = { Enter: next, y: mark(1), n: mark(-1), o: () => lookCloser(state.batch, at, state.facts.collection) };
  const action = other ? () => other.focus() : actions[event.key.length > 1 ? event.key : event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

function toJudge(hit, { marks, facts }) {
  const value = marks.get(hit.image_id) ?? 0;
  const actions = { open: ({ image_id: id }) => update({ marks: stepped(state.marks, id) }), mark: ({ image_id: id }, chosen) => update({ marks: judged(state.marks, id, chosen) }) };
  return html`<li class=${{ 1: "liked", "-1": "unliked" }[value] ?? ""}>${card(hit, { href: searchAddress(hit.image_id, facts.collection), marked: value, over: html`<span class="unseen">${STATES[value]}</span>`, actions })}</li>`;
}

function batch(now) {
  const { batch: items, marks, busy, history, estimate } = now;
  const isFull = !items || marks.size === items.length;
  const button = (id, words, isOff, action, kind = "") => html`<button class=${`button small ${kind}`} type="button" id=${id} ?disabled=${busy || isOff} @click=${action}>${words}</button>`;
  return html`<div class="cohort-bar">
      <div><h2 id="batch-title">${tr("Do these belong to the cohort?")}</h2><p class="hint missing-above" aria-hidden="true">${estimate ? missing(estimate) : ""}</p></div>
      <div class="buttons">
        ${button("all-relevant", tr("The others belong"), isFull, () => update({ marks: filled(state.marks, ids(), 1) }))}
        ${button("all-irrelevant", tr("The others do not"), isFull, () => update({ marks: filled(state.marks, ids(), -1) }))}
        ${button("undo", tr("Undo"), !marks.size && history.length <= 1, undo)}
        ${button("next", tr("Next images"), !marks.size, next, "primary")}
      </div>
    </div>
    <p class="hint">${tr("Arrow keys move, Y belongs, N does not, O enlarges, Enter goes on. Images that you leave open come again.")}</p>
    <ul class="grid judging" id="grid" role="list" aria-labelledby="batch-title" aria-busy=${busy ? "true" : nothing} @keydown=${onKey}>${repeat(items ?? [], ({ image_id: id }) => id, (hit) => toJudge(hit, now))}</ul>
    ${items && !items.length ? html`<section class="state" id="finished"><h2>${tr("All images are judged")}</h2></section>` : nothing}`;
}

function found({ saved, images, facts, busy }) {
  const shown = images ?? [];
  const remove = (hit) => html`<button class="button small" type="button" ?disabled=${busy} aria-label=${`${tr("Does not belong")}: ${titleOf(hit)}`} title=${tr("Does not belong")} @click=${() => takeOut(hit)}>✕</button>`;
  const entry = (hit, index) => html`<li>${card(hit, { href: searchAddress(hit.image_id, facts.collection), actions: { open: () => lookCloser(shown, index, facts.collection) }, below: saved.mine && shown.length > 1 ? remove(hit) : nothing })}</li>`;
  return html`<details class="cohort-found" id="found-images" ?open=${!saved.mine} @toggle=${({ target }) => target.open ? state.images ?? attempt(showFound) : update({ images: null })}>
    <summary>${tr("Images found")}</summary><ul class="grid" role="list">${repeat(shown, ({ image_id: id }) => id, entry)}</ul></details>`;
}

const missing = ({ found: count, missing: left, missing_low: low, missing_high: high }) => tr("About {missing} of {total} are missing ({low} to {high}).", { missing: Math.round(left), total: Math.round(count + left), low, high });

/** The curve of a history, and the estimated number of all with its interval {low, expected, high}. */
function curve(history, total) {
  const [width, height, inset] = [280, 140, 8];
  const { line, level } = curvePoints(foundAfter(history), { width, height, inset, top: Math.min(total.high, 2 * total.expected) });
  const [high, low, expected] = [total.high, total.low, total.expected].map(level);
  return html`<svg viewBox="0 0 280 140" role="img" aria-labelledby="curve-words">
    <rect class="interval" x=${inset} width=${width - 2 * inset} y=${high} height=${Math.max(low - high, 1)}></rect>
    <line class="expected" x1=${inset} x2=${width - inset} y1=${expected} y2=${expected}></line>
    <polyline class="found" points=${line}></polyline></svg>`;
}

function progress({ estimate, history }) {
  if (!estimate) return nothing;
  const { found: count, judged: seen, missing: left, missing_low: low, missing_high: high } = estimate;
  const [recall, least, most] = [estimate.recall, estimate.recall_low, estimate.recall_high].map((value) => Math.round(100 * value));
  return html`<p class="cohort-count"><strong id="found">${count}</strong> ${trn("found, {count} image judged", "found, {count} images judged", seen)}</p>
    <p id="missing" role="status">${missing(estimate)}</p>
    <p>${tr("{recall} % found ({low} to {high} %)", { recall, low: least, high: most })}</p>
    <figure class="cohort-curve">${curve(history, { low: count + low, expected: count + left, high: count + high })}<figcaption class="hint" id="curve-words">${tr("Images found, by the number of images judged")}</figcaption></figure>
    ${ADVICE[estimate.advice] ? html`<p class="warning" id="advice">${ADVICE[estimate.advice]}</p>` : nothing}`;
}

export function draw(now) {
  const { saved, facts } = now;
  return html`<div class="saved-sheet">
      <h1>${saved.title}</h1>
      <p class="hint">${[savedFacts(saved, facts.several), ...saved.where].join(" · ")}</p>
      ${problemBox()}
      ${saved.mine ? batch(now) : nothing}
      ${found(now)}
    </div>
    <aside class="saved-tools" aria-label=${tr("Progress")}>
      <h2>${tr("Progress")}</h2>
      ${progress(now)}
      <section><h2>${tr("Export")}</h2><div class="buttons">${Object.entries(FORMATS).map(([format, words]) => html`<a class="button small" href=${address(`/export?format=${format}`)} download>${words}</a>`)}</div></section>
      ${changeForm(now)}
      ${!saved.mine && saved.note ? html`<section><h2>${tr("Note")}</h2><p class="note">${saved.note}</p></section>` : nothing}
      ${deleteButton("cohorts", saved, facts, leave)}
    </aside>`;
}
