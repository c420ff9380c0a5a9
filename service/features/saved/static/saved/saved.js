// The pages of what is kept: the list of cases and cohorts, searched while one types, loaded page by page; a case, a cohort.

import "../shell.js";
import { fetchJson, withFields } from "../api.js";
import { card } from "../card.js";
import * as casePage from "../cases/case.js";
import * as cohortPage from "../cohorts/cohort.js";
import { attempt, moreButton, problemBox, tabs } from "../list_page.js";
import { state, subscribe, update } from "../page_state.js";
import { tr, trn } from "../translate.js";
import { html, nothing, render, repeat } from "../vendor/lit.js";
import { deleteButton, pageAddress, savedFacts } from "./own.js";

const DELAY = 200; // ms from the last letter to the search
const TABS = [{ name: "cases", title: tr("Cases") }, { name: "cohorts", title: tr("Cohorts") }];
const NONE = {
  cases: [tr("No cases"), tr("Search with an image, judge the results, and choose Keep below the query.")],
  cohorts: [tr("No cohorts"), tr("Mark results of a search as relevant, or select images in the gallery, and choose Find all of these.")],
};

let latest = 0; // number of the last request
let timer = 0;

const kindOf = () => (location.hash === "#cohorts" ? "cohorts" : "cases");

const beginList = () => ({ kind: kindOf(), words: "", items: null, next: null });

function load(cursor = "") {
  const [number, { kind, words }] = [++latest, state];
  return attempt(async () => {
    const page = await fetchJson(withFields(`/v1/${kind}`, { words, cursor }));
    if (number === latest) update({ items: cursor ? [...state.items, ...page.items] : page.items, next: page.next });
  });
}

function startList() {
  addEventListener("hashchange", () => {
    update(beginList());
    load();
  });
  load();
}

function searchWords({ target }) {
  update({ words: target.value });
  clearTimeout(timer);
  timer = setTimeout(load, DELAY);
}

function drop({ id }) {
  update({ items: state.items.filter((item) => item.id !== id) });
  queueMicrotask(() => document.getElementById(`tab-${state.kind}`)?.focus()); // the question had the focus, and is gone then
}

function entry(kind, saved, facts) {
  const search = withFields("/", { case: saved.id, collection: facts.several ? saved.collection : "" });
  const counts = kind === "cohorts" ? `${tr("{found} found, {judged} judged", saved)} · ` : "";
  const below = html`<p class="hint">${counts}${savedFacts(saved, facts.several)}</p>
    ${saved.note ? html`<p class="excerpt">${saved.note}</p>` : nothing}
    <div class="buttons">${kind === "cases" ? html`<a class="button small" href=${search}>${tr("Open the search")}</a>` : nothing}${deleteButton(kind, saved, facts, () => drop(saved))}</div>`;
  const over = kind === "cohorts" ? html`<b class="count">${saved.found}</b>` : nothing;
  const hit = { image_id: saved.id, card: { finding: saved.title }, links: { thumbnail: saved.picture ?? nothing } };
  return html`<li>${card(hit, { href: pageAddress(kind, saved.id), over, below })}</li>`;
}

function drawList({ kind, words, items, next, facts }) {
  const [title, advice] = NONE[kind];
  const counted = !items ? "" : kind === "cases" ? trn("{count} case", "{count} cases", items.length) : trn("{count} cohort", "{count} cohorts", items.length);
  return html`<div class="saved-head"><h1>${tr("Saved")}</h1>${tabs(tr("Saved"), TABS, kind)}
      ${kind === "cases" ? html`<input type="search" id="words" maxlength="200" autocomplete="off" aria-label=${tr("Search titles and notes")} placeholder=${tr("Search titles and notes")} .value=${words} @input=${searchWords} />` : nothing}</div>
    <p class="unseen" role="status">${counted}</p>
    ${problemBox()}
    ${items && !items.length && !next ? html`<section class="state" id="none"><h2>${title}</h2><p>${advice}</p></section>` : nothing}
    <ul class="grid saved-list" id="list" role="list" aria-label=${kind === "cases" ? tr("Cases") : tr("Cohorts")}>${repeat(items ?? [], ({ id }) => id, (saved) => entry(kind, saved, facts))}</ul>
    ${moreButton(next, () => load(next))}`;
}

const main = document.getElementById("saved");
const page = { list: { begin: beginList, start: startList, draw: drawList }, case: casePage, cohort: cohortPage }[main.dataset.page];
const facts = JSON.parse(main.dataset.facts);

Object.assign(state, {
  facts, // what the service says: {several, is_admin, ...}
  busy: false,
  problem: null, // {message, again}
  said: "", // for screen readers
  ...page.begin(facts),
});
subscribe((now) => {
  if (now.saved) document.title = [now.saved.title, "cbir"].join(" · ");
  render(html`${page.draw(now)}<p class="unseen" id="said" role="status">${now.said}</p>`, main);
});
update({});
page.start?.();
