// The page of what is wrong with a collection: findings of its audit, which runs as a job, and images in quarantine, to release or refuse.

import "../shell.js";
import { addressIn, fetchJson, jsonBody, request } from "../api.js";
import { card } from "../card.js";
import { attempt, moreButton, problemBox, tabs } from "../list_page.js";
import { state, subscribe, update } from "../page_state.js";
import { number, trn } from "../translate.js";
import { html, nothing, render, repeat } from "../vendor/lit.js";
import { findings } from "./findings.js";

const REASONS = {
  text: "Text is burned into the pixels",
  blank: "The image shows nothing",
  damaged: "The end of the image is missing",
  inverted: "It looks inverted: its negative fits the collection better",
  modality: "It looks like images of another modality",
  unlike: "Nothing in the collection looks like it",
};

const addressOf = (part = "", fields = {}) => addressIn(state.facts.in_links, `quarantine${part}`, fields);

const loadQuarantine = (cursor = "") =>
  attempt(async () => {
    const { items, next } = await fetchJson(addressOf("", { cursor }));
    update({ quarantined: { items: cursor ? [...state.quarantined.items, ...items] : items, next } });
  });

/** Carry out the decision on an image, and take it off the list. If that fails, the list may be old: somebody else has decided. */
const decide = ({ image_id: id }, part, method) =>
  attempt(async () => {
    await request(addressOf(`/${encodeURIComponent(id)}${part}`), { method });
    update({ quarantined: { ...state.quarantined, items: state.quarantined.items.filter((item) => item.image_id !== id) } });
  }, () => loadQuarantine());

function entry(item) {
  const finding = item.findings.map((each) => REASONS[each] ?? each).join("; ");
  const button = (words, kind, action) => html`<button class=${`button small ${kind}`} type="button" ?disabled=${state.busy} @click=${action}>${words}</button>`;
  const below = html`<div class="buttons">${button("Release", "primary", () => decide(item, "/release", "POST"))}${button("Refuse", "danger", () => decide(item, "", "DELETE"))}</div>`;
  return html`<li>${card({ ...item, card: { finding }, links: { thumbnail: addressOf(`/${encodeURIComponent(item.image_id)}/thumbnail`) } }, { href: nothing, below })}</li>`;
}

function drawQuarantine({ quarantined }) {
  const { items, next } = quarantined ?? { items: [], next: null };
  return html`<p class="hint">The intake check keeps these images out: no search finds them until they are released.</p>
    <p role="status">${quarantined ? trn("{count} image", "{count} images", items.length) : ""}</p>
    <ul class="grid" id="quarantined" role="list">${repeat(items, ({ image_id: id }) => id, entry)}</ul>
    ${moreButton(next, () => loadQuarantine(next))}`;
}

const POLL_MS = 1000;
let timer = 0; // until the audit that runs is read again

const main = document.getElementById("quality");
const facts = JSON.parse(main.dataset.facts);

Object.assign(state, {
  facts, // {collection, in_links, label_keys, may_release, may_cancel}
  tab: location.hash.slice(1),
  label: facts.chosen, // the label to check
  split: "",
  audit: null, // the latest one, {changed, corrected} since
  corrected: {},
  decided: new Map(), // on suspects, by image: {words, isDone}
  running: null, // {job, done} of the audit that runs
  isRead: false,
  quarantined: null, // {items, next} once they are asked for
  problem: null,
});

/** A key of the audit that is shown, so that the next one looks for the same. */
const known = (key, other) => (facts.label_keys.includes(key) ? key : other);

async function read() {
  const { state: phase, job, done, error, audit, changed, corrected } = await fetchJson(addressIn(facts.in_links, "audit"));
  const running = phase === "computing" ? { job, done } : null;
  const isNew = audit && audit.read_at !== state.audit?.read_at; // else what was decided on the page stays
  const chosen = { decided: new Map(), label: known(audit?.labels?.key, state.label), split: known(audit?.leaks?.key, state.split) };
  update({ ...(isNew && chosen), running, audit, changed, corrected, isRead: true });
  if (phase === "failed") update({ problem: { message: `The last audit failed: ${error ?? ""}` } });
  clearTimeout(timer);
  if (running) timer = setTimeout(follow, POLL_MS);
}

const load = () => attempt(read);

/** Read the audit that runs once more, beside what else the page does. */
const follow = () => read().catch(({ message }) => update({ problem: { message, again: load } }));

function begin(event) {
  event.preventDefault();
  const { label, split } = state;
  attempt(async () => {
    await request("/v1/audit", jsonBody({ label: label || null, split: split || null, ...(facts.in_links && { collection: facts.in_links }) }));
    await read();
  });
}

const cancel = () => attempt(() => request(`/v1/jobs/${encodeURIComponent(state.running.job)}/cancel`, { method: "POST" }), load);

function field(name, words, keys) {
  const option = (value, text) => html`<option value=${value} .selected=${value === state[name]}>${text}</option>`;
  return html`<div class="field"><label for=${name}>${words}</label><select id=${name} autocomplete="off" @change=${({ target }) => update({ [name]: target.value })}>${option("", "no label")}${keys.map((key) => option(key, key))}</select></div>`;
}

function head({ running, audit, changed, isRead, busy }) {
  const made = audit && `${number(audit.images)} images, ${audit.read_at.slice(0, 16).replace("T", " ")} UTC.`;
  return html`<form class="audit-form" id="start" @submit=${begin}>
      ${field("label", "Label to check", facts.label_keys)}${field("split", "Label of the split", facts.label_keys)}
      <button class="button primary" type="submit" id="run" ?disabled=${running || busy}>Start an audit</button>
    </form>
    <p class="hint" id="made" role="status">${audit ? made : isRead && !running ? "There has been no audit of this collection." : ""} ${audit && changed ? "The collection has changed since." : ""}</p>
    ${running ? html`<div class="progress-line" id="progress-line"><span id="progress-text" role="status">The audit is running.</span>
      <progress max="1000" .value=${running.done} aria-labelledby="progress-text"></progress>
      ${facts.may_cancel ? html`<button class="button" type="button" ?disabled=${busy} @click=${cancel}>Cancel</button>` : nothing}</div>` : nothing}`;
}

const tabsOf = (now) => [
  ...(now.audit ? findings(now) : [{ name: "audit", title: "Audit", show: () => nothing }]),
  ...(facts.may_release ? [{ name: "quarantine", title: "Quarantine", show: drawQuarantine }] : []),
];

function draw(now) {
  const all = tabsOf(now);
  const tab = all.find(({ name }) => name === now.tab) ?? all[0];
  return html`<h1>Quality · ${facts.collection}</h1>
    ${tabs("Findings", all, tab.name)}
    ${tab.name === "quarantine" ? nothing : head(now)}
    ${problemBox()}
    <section id="panel" aria-labelledby=${`tab-${tab.name}`}>${tab.show(now)}</section>`;
}

function openTab() {
  update({ tab: location.hash.slice(1) });
  if (state.tab === "quarantine" && facts.may_release && !state.quarantined) loadQuarantine();
}

subscribe((now) => render(draw(now), main));
addEventListener("hashchange", openTab);
openTab();
load();
