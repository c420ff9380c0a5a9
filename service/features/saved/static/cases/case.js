// The page of a case: its query, note and results, what its teaching file has, and changing it.

import { searchAddress, withFields } from "../api.js";
import { card } from "../card.js";
import { problemBox } from "../list_page.js";
import { state, update } from "../page_state.js";
import { apiAddress, changeForm, deleteButton, exportAddress, lookCloser, savedFacts } from "../saved/own.js";
import { sharesOf, verdictOf } from "../search/verdict.js";
import { remembered } from "../theme.js";
import { fixed, tr, trn } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { regionParts } from "../viewer/place.js";
import "../viewer/viewer.js";

/** The query as the source of a viewer; null for words, and for an image that is gone. */
function sourceOf({ search, picture, id }, { collection, images }) {
  if (search.image_id) return images[search.image_id] ? { kind: "image", collection, id: search.image_id } : null;
  return picture ? { kind: "address", address: apiAddress("cases", id, "/picture") } : null;
}

export const begin = (facts) => ({
  kind: "cases",
  saved: facts.case,
  source: sourceOf(facts.case, facts),
  keys: facts.label_keys.filter((key) => facts.default_labels.includes(key)), // of labels in the file
  ranks: facts.first, // of results in the file
  checked: false, // whether the user has looked at what is in the file
});

/** The list with or without a value; what the user has looked at is another file now. */
const choose = (name, value, isIn) => update({ [name]: isIn ? [...state[name], value] : state[name].filter((each) => each !== value), checked: false });

const check = (text, isOn, change, attributes = {}) =>
  html`<label class="check"><input type="checkbox" value=${attributes.value ?? nothing} data-rank=${attributes.rank ?? nothing} id=${attributes.id ?? nothing} .checked=${isOn} ?disabled=${attributes.disabled} @change=${({ target }) => change(target.checked)} /> ${text}</label>`;

const labelLines = ({ labels }, keys) => keys.filter((key) => key in labels).map((key) => html`<span class="hint" data-key=${key}>${key}: ${labels[key]}</span>`);

const showRegion = ({ target }) => (target.marked = regionParts(state.saved.search, target.picture.size));

function query({ saved, source, facts, keys }) {
  const { text, image_id: image, region } = saved.search;
  const shown = text ? html`<p class="state">${text}</p>` : source ? html`<cbir-viewer tools="window zoom measure" label=${tr("The query image")} .source=${source} @cbir-ready=${showRegion}></cbir-viewer>` : html`<p class="state">${tr("The query is no longer in the collection.")}</p>`;
  return html`<figure class="case-query">${shown}<figcaption>${tr("Query")}${region ? ` · ${tr("Part of an image")}` : ""} ${facts.images[image] ? labelLines(facts.images[image], keys) : nothing}</figcaption></figure>`;
}

function answer(hit, index, { saved, source, facts, keys, ranks }, verdicts) {
  const image = facts.images[hit.image_id];
  const verdict = verdicts.get(hit.image_id) ?? 0;
  const isIn = ranks.includes(hit.rank);
  const shown = () => lookCloser(saved.answers.map((each) => ({ ...facts.images[each.image_id], rank: each.rank })), index, facts.collection, { source: source && { ...source, series: source.kind === "image" }, caption: saved.search.text ?? "" });
  const below = html`${verdict ? html`<span class="hint">${verdict > 0 ? `✓ ${tr("relevant")}` : `✕ ${tr("not relevant")}`}</span>` : nothing}
    ${remembered("expert") === "yes" ? html`<span class="hint">${fixed(hit.score, 3)} · ${fixed(hit.distance, 3)}</span>` : nothing}
    ${labelLines(image, keys)}
    ${image.burned_in ? html`<span class="alarm">${tr("declares text in the picture")}</span>` : nothing}
    ${check(tr("In the teaching file"), isIn, (isOn) => choose("ranks", hit.rank, isOn), { rank: hit.rank })}`;
  return html`<li class=${`${isIn ? "" : "left-out"} ${verdict > 0 ? "liked" : verdict < 0 ? "unliked" : ""}`}>${card(image, { href: searchAddress(image.image_id, facts.collection), number: hit.rank, below, actions: { open: shown } })}</li>`;
}

function teachingFile({ saved, facts, keys, ranks, checked }) {
  const burnedIn = Object.values(facts.images).filter((image) => image.burned_in).length;
  const download = (format, words) => html`<a class="button" id=${`export-${format}`} role="button" aria-disabled=${String(!checked)} href=${checked ? exportAddress(saved.id, format, keys, ranks) : nothing}>${words}</a>`;
  return html`<section aria-labelledby="export-title">
    <h2 id="export-title">${tr("Teaching file")}</h2>
    <p class="hint">${tr("Has the title, the note, the pictures at the left that are chosen, and these labels. No ids, UIDs, patient keys, names of files or dates.")}</p>
    ${facts.label_keys.length ? html`<fieldset class="case-labels" id="label-keys"><legend>${tr("Labels")}</legend>${facts.label_keys.map((key) => check(key, keys.includes(key), (isOn) => choose("keys", key, isOn), { value: key, disabled: !keys.includes(key) && keys.length >= facts.max_labels }))}</fieldset>` : nothing}
    <p class="warning">${tr("Text in the pictures is not removed, nor names in the note. Look at every picture and read the text before you pass the file on.")}</p>
    ${burnedIn ? html`<p class="alarm">${trn("{count} image declares text in its pixels.", "{count} images declare text in their pixels.", burnedIn)}</p>` : nothing}
    ${check(tr("I have looked: nothing names a patient"), checked, (isOn) => update({ checked: isOn }), { id: "checked" })}
    <div class="buttons">${download("html", tr("Download HTML"))}${facts.has_pdf ? download("pdf", tr("Download PDF")) : nothing}</div>
    ${facts.has_pdf ? nothing : html`<p class="hint">${tr("PDF is not installed on this service. The HTML file can be printed to PDF.")}</p>`}
  </section>`;
}

export function draw(now) {
  const { saved, facts } = now;
  const hits = saved.answers.map((each) => ({ ...facts.images[each.image_id], patient: facts.images[each.image_id]?.patient_key, ...each }));
  const shares = saved.verdict || saved.outlier || saved.rounds.length || saved.search.where.length || saved.search.region ? "" : sharesOf(hits);
  const said = saved.verdict || (saved.outlier ? verdictOf(saved).title : saved.rounds.length ? tr("Refined by your marks") : shares && `${tr("Of {count} results:", { count: hits.length })} ${shares}`);
  const verdicts = new Map(saved.marks.map(({ image_id, relevance }) => [image_id, Math.sign(relevance)]));
  return html`<article class="saved-sheet">
      <h1>${saved.title}</h1>
      <p class="hint">${savedFacts(saved, true)}</p>
      <p><a class="button primary" href=${withFields("/", { case: saved.id, collection: facts.collection })}>${tr("Open the search")}</a></p>
      <div class="case-top">${query(now)}<p class="note">${saved.note}</p></div>
      <h2>${tr("Results as they were")}</h2>
      ${said ? html`<p id="verdict">${said}</p>${shares ? html`<p class="hint">${tr("How often such agreement was right is not known.")} ${tr("Not a probability for this patient.")}</p>` : nothing}` : nothing}
      ${saved.missing ? html`<p class="hint">${trn("{count} result is left out: its image is no longer in the collection.", "{count} results are left out: their images are no longer in the collection.", saved.missing)}</p>` : nothing}
      <ol class="grid" id="answers" role="list" aria-label=${tr("Results as they were")}>${saved.answers.map((hit, index) => answer(hit, index, now, verdicts))}</ol>
    </article>
    <aside class="saved-tools" aria-label=${tr("Case")}>
      ${teachingFile(now)}
      ${problemBox()}
      ${changeForm(now)}
      ${deleteButton("cases", saved, facts, () => location.assign("/saved"))}
    </aside>`;
}
