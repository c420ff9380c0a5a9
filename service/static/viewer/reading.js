// The reading view: the query and one or three results on the whole screen, in step with each other.
// Features add to it by reading(view): something else is shown; readingSwitches(view), readingExtras(view): templates; readingKeys(): actions by key.

import { record } from "../api.js";
import { factsOf, titleOf, wordsOf } from "../card.js";
import { callParts } from "../page_state.js";
import { remember, remembered } from "../theme.js";
import { tr } from "../translate.js";
import { html, live, nothing, render } from "../vendor/lit.js";
import { loadPicture } from "./picture_source.js";
import "./viewer.js";

const TITLES = { image_id: tr("Image"), format: tr("Format"), frame: tr("Frame"), study: tr("Study"), series: tr("Series"), instance: tr("Instance"), patient_key: tr("Patient (key)") };

const pair = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

function metadataOf(record) {
  const { labels, links, width, height, burned_in: hasText } = record;
  return html`${Object.entries(labels).map(([key, value]) => pair(wordsOf(key), value))}
    ${Object.entries(TITLES).map(([name, title]) => (record[name] ? pair(title, record[name]) : nothing))}
    ${pair(tr("Size"), `${width} × ${height}`)}
    ${links.viewer ? pair(tr("Viewer"), html`<a href=${links.viewer} target="_blank" rel="noopener noreferrer">${tr("Open the study")}</a>`) : nothing}
    ${hasText ? pair(tr("Burned-in annotation"), tr("yes, according to the header")) : nothing}`;
}

const STORAGE_KEY = "reading-results";
const LAYOUTS = { 1: "1 × 2", 3: "2 × 2" }; // by the number of results
const STEPS = { slices: tr("Slices"), window: tr("Window"), zoom: tr("Zoom") };
const LINKS = { mm: tr("Slices move by equal millimetres from where both stood; they are not registered."), fraction: tr("Slices are linked by their share of the series: positions are unknown.") };
const UNWINDOWED = tr("Windows cannot move together: the values of these pictures have different units.");
const UNLINKED = tr("Slices cannot move together: only one of these pictures belongs to a series.");
const MARKS = [[1, "✓", tr("Like this")], [-1, "✕", tr("Not like this")]];

class ReadingView {
  place = document.body.appendChild(document.createElement("div"));
  follows = { slices: true, window: true, zoom: true };
  count = Number(remembered(STORAGE_KEY)) === 3 ? 3 : 1;
  #waiting = false;
  #next = null; // what is done once it has closed
  #isLeaving = false;

  open({ query, results, index, actions = {} }) {
    if (!history.state?.reading) history.pushState({ ...history.state, reading: true }, ""); // a step back leaves the view alone
    Object.assign(this, { query, results, actions, position: index, reported: null, metadata: null, flipped: false, address: location.href });
    [this.#next, this.#isLeaving] = [null, false];
    render(this.template(), this.place);
    this.dialog.showModal();
    this.show();
    this.viewers[1].stage.focus();
  }

  get dialog() {
    return this.place.querySelector("dialog");
  }

  get viewers() {
    return [...this.place.querySelectorAll("cbir-viewer")];
  }

  /** The results beside the query, each {result, viewer}. */
  get shown() {
    return this.results.slice(this.position, this.position + this.count).map((result, index) => ({ result, viewer: this.viewers[index + 1] }));
  }

  /** The result that has the focus, else the first one. */
  get current() {
    return this.shown.find(({ viewer }) => viewer.closest("figure").contains(document.activeElement)) ?? this.shown[0];
  }

  /** The image of a result that a viewer shows: a slice of its series, or the result itself. */
  imageOf = ({ result, viewer }) => viewer.slice?.id ?? result.id;

  /** Draw, and tell those who follow what is shown. */
  show() {
    const { results, position, count } = this;
    this.draw();
    if (this.metadata) this.loadMetadata();
    if (this.reported !== results[position]) this.actions.shown?.(results[position]);
    this.reported = results[position];
    queueMicrotask(() => callParts("reading", this)); // drawn then
    for (const { id, collection } of results.slice(position + count, position + 2 * count)) loadPicture({ id, collection }).catch(() => {});
  }

  /** Draw after the running script: viewers tell of what changes while they are drawn. */
  draw() {
    if (this.#waiting) return;
    this.#waiting = true;
    queueMicrotask(() => {
      this.#waiting = false;
      if (this.dialog) render(this.template(), this.place);
    });
  }

  template() {
    const { results, position, count, query, metadata } = this;
    const last = Math.min(position + count, results.length);
    const first = last > position + 1 ? `${position + 1}–${last}` : position + 1;
    const step = (by, sign, title) => html`<button class="button small" type="button" title=${title} aria-label=${title} ?disabled=${!results[position + by]} @click=${() => this.go(by)}>${sign}</button>`;
    const layout = ([each, name]) => html`<button class="button small" type="button" title="G" data-count=${each} aria-pressed=${String(Number(each) === count)} @click=${() => this.setCount(Number(each))}>${name}</button>`;
    const stacks = this.viewers.filter((each) => each.count > 1).length;
    const units = this.viewers.flatMap(({ picture }) => (picture ? [picture.unit] : []));
    const isApart = { slices: stacks < 2, window: units.length > 1 && new Set(units).size === units.length };
    const links = stacks === 1 && this.viewers.some((each) => each.isAlone && each.count === 1) ? UNLINKED : this.follows.slices && LINKS[this.viewers[0]?.linkedBy];
    const inStep = ([name, title]) => html`<label class="check"><input type="checkbox" ?disabled=${isApart[name]} .checked=${this.follows[name]} @change=${({ target }) => this.follow(name, target.checked)} /> ${title}</label>`;
    return html`<dialog class="reading" aria-label=${tr("Comparison of the query with results")} @keydown=${(event) => this.key(event)} @cancel=${(event) => this.leave(event)} @close=${() => this.closed()}
      @cbir-link=${() => this.draw()} @cbir-ready=${() => this.changed()} @cbir-failed=${() => this.draw()} @cbir-slice=${() => this.changed()}>
      <header>${step(-1, "←", tr("Previous result"))}${step(1, "→", tr("Next result"))}<h2>${tr("Result {first} of {count}", { first, count: results.length })}</h2>
        ${Object.entries(LAYOUTS).map(layout)}
        <span class="reading-steps" role="group" aria-label=${tr("What moves together")}><span>${tr("In step:")}</span>${Object.entries(STEPS).map(inStep)}</span>
        <span class="buttons">${callParts("readingSwitches", this)}</span>
        <button class="button small" type="button" title="I" aria-expanded=${String(Boolean(metadata))} @click=${() => this.toggleMetadata()}>${tr("Metadata")}</button>
        <button class="button small reading-leave" type="button" title="Esc" @click=${(event) => this.leave(event)}>${tr("Close")}</button></header>
      <div class="reading-panes" data-count=${count}>
        ${this.pane({ leads: true, source: query.source, label: tr("The query"), marked: query.region, caption: html`<span class="reading-words"><strong>${tr("Query")}</strong> ${query.caption}</span>` })}
        ${Array.from({ length: count }, (_, index) => this.resultPane(results[position + index]))}</div>
      <p class="reading-link" role="status">${[links, isApart.window && UNWINDOWED].filter(Boolean).join(" ") || nothing}</p>
      <div class="reading-extras">${callParts("readingExtras", this)}</div>
      <section class="metadata" tabindex="0" aria-label=${tr("Metadata")} ?hidden=${!metadata}><dl>${metadata}</dl></section>
    </dialog>`;
  }

  pane({ leads = false, source = null, label = "", marked = null, flipped = false, caption = nothing }) {
    return html`<figure ?hidden=${!source}><cbir-viewer tools="window zoom measure" wheel-zooms label=${label} .leads=${leads} .linked=${"reading"} .follows=${this.follows}
      .source=${live(source)} .marked=${marked} .flipped=${flipped}></cbir-viewer><figcaption>${caption}</figcaption></figure>`;
  }

  resultPane(result) {
    if (!result) return this.pane({});
    const { id, source, rank, title, facts: about, pacs, match } = result;
    const mark = ([value, sign, name]) => html`<button class="button small" type="button" title=${name} aria-label=${`${name}: ${title}`} data-mark=${value} aria-pressed=${String(this.actions.markOf(id) === value)} @click=${() => this.mark(result, value)}>${sign}</button>`;
    return this.pane({
      source,
      label: tr("Result at rank {rank}, {title}", { rank, title }),
      marked: match,
      flipped: this.flipped,
      caption: html`<span class="reading-words"><strong>${tr("Rank {rank} · {title}", { rank, title })}</strong> ${about}</span>
        ${this.actions.mark ? MARKS.map(mark) : nothing}
        <button class="button small reading-search" type="button" @click=${() => this.search(this.shown.find((each) => each.result === result))}>${tr("Search with this image")}</button>
        ${pacs ? html`<a class="button small primary" href=${pacs} target="_blank" rel="noopener noreferrer">${tr("Open in PACS viewer")}</a>` : nothing}`,
    });
  }

  changed() {
    this.draw();
    callParts("reading", this);
  }

  setCount(count) {
    remember(STORAGE_KEY, String(count));
    this.count = count;
    this.show();
  }

  go(step) {
    if (!this.results[this.position + step]) return;
    Object.assign(this, { position: this.position + step, flipped: false });
    this.show();
  }

  /** Let slices, window or zoom move together, or each for itself. */
  follow(name, isOn) {
    this.follows = { ...this.follows, [name]: isOn };
    for (const viewer of this.viewers) Object.assign(viewer, { follows: this.follows }).redraw();
    if (name === "slices") this.viewers[0].link();
    this.draw();
  }

  mark({ id }, value) {
    this.actions.mark?.(id, value);
    this.draw();
  }

  search(shown) {
    const image = this.imageOf(shown);
    this.#next = () => this.actions.search?.(image);
    this.leave();
  }

  toggleMetadata() {
    this.metadata = this.metadata ? null : [];
    if (this.metadata) this.loadMetadata();
    this.draw();
  }

  async loadMetadata() {
    const result = this.results[this.position];
    this.actions.told?.(result);
    const lines = await record(result).then(metadataOf, ({ title = "", message }) => pair(title, message));
    if (!this.metadata || this.results[this.position] !== result) return;
    this.metadata = lines;
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, .metadata, .reading-extras")) return;
    const { current } = this;
    const actions = {
      ArrowLeft: () => this.go(-1),
      ArrowRight: () => this.go(1),
      g: () => this.setCount(this.count === 3 ? 1 : 3),
      i: () => this.toggleMetadata(),
      y: () => this.mark(current.result, 1),
      n: () => this.mark(current.result, -1),
      s: () => this.search(current),
      p: () => current.viewer.closest("figure").querySelector("a")?.click(),
      f: () => Object.assign(this, { flipped: !this.flipped }).draw(),
      ...Object.assign({}, ...callParts("readingKeys")),
    };
    const action = !event.shiftKey && actions[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (action) action();
    else if (!current.viewer.press(event)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Close the view by a step back, which takes its entry of the history away. */
  leave(event) {
    event?.preventDefault();
    if (this.#isLeaving) return;
    this.#isLeaving = Boolean(history.state?.reading);
    if (this.#isLeaving) history.back();
    else this.dialog.close();
  }

  closed() {
    render(nothing, this.place);
    this.actions.closed?.(this.results[this.position], location.href === this.address);
    this.#next?.();
  }
}

/** A hit of the API as a result of the view. */
export const resultOf = (hit, collection) => ({ id: hit.image_id, collection, source: { kind: "image", collection, id: hit.image_id, series: true }, rank: hit.rank, title: titleOf(hit), facts: factsOf(hit).join(" · "), pacs: hit.links.viewer ?? null, match: hit.match, hit });

let view = null;

/** Let an entry of the history whose view is gone, as after a reload, be one of the page. */
const forget = () => globalThis.history?.state?.reading && history.replaceState({ ...history.state, reading: false }, "");

function stepBack(event) {
  if (!view?.dialog?.open) return forget();
  view.dialog.close();
  if (location.href === view.address) event.stopImmediatePropagation(); // the page shows it already
}

globalThis.addEventListener?.("popstate", stepBack, { capture: true });
forget();

/**
 * Open the reading view. query: {source, caption, region}, source as of <cbir-viewer>, null for words; region: in parts of its picture.
 * results: [{id, collection, source, rank, title, facts, pacs, match}], pacs: address of the image in the archive's viewer, or null. index: of the result that is shown.
 * actions: mark(id, value) as like the query (1) or not (-1), markOf(id), search(id), shown(result), told(result): its metadata are, closed(result).
 */
export function openReading(options) {
  view ??= new ReadingView();
  view.open(options);
}
