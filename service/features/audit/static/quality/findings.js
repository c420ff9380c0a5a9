// The tabs of an audit: a title with a number each, and what they show. Suspect labels are corrected or confirmed by a click or a key; the
// collection's history has every change.

import { imageAddress, jsonBody, request, searchAddress } from "../api.js";
import { card } from "../card.js";
import { state, update } from "../page_state.js";
import { fixed, number, trn } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";

/** A picture {id, caption, kind} that leads to a search with it. */
function image({ id, caption = "", kind = "" }) {
  const { in_links: collection } = state.facts;
  const hit = { image_id: id, card: { finding: caption }, links: { thumbnail: imageAddress(collection, id, "/thumbnail") } };
  return html`<li class=${kind}>${card(hit, { href: searchAddress(id, collection) })}</li>`;
}

/** A finding: pictures {id, caption, kind} below a title, with what can be done about it. */
const finding = (title, images, { below = nothing, kind = "", isFocusable = false } = {}) =>
  html`<article class=${`finding ${kind}`} tabindex=${isFocusable ? 0 : nothing} aria-label=${title}><strong>${title}</strong><ul class="strip" role="list">${images.map(image)}</ul>${below}</article>`;

function table(heads, lines) {
  return html`<div class="wide"><table><thead><tr>${heads.map((text) => html`<th scope="col">${text}</th>`)}</tr></thead>
    <tbody>${lines.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

const bar = (share) => html`<div class="bar-cell"><span .style=${`width: ${Math.max(100 * share, 0.5)}%`}></span></div>`;

const NEIGHBOURS = 3;

/** Do what was decided on a suspect, and go on with the next. */
async function decide({ image_id: id }, row, words, act = async () => {}) {
  const note = (text, isDone) => update({ decided: new Map(state.decided).set(id, { words: text, isDone }) });
  note("", true); // its buttons are disabled meanwhile
  try {
    await act();
  } catch (error) {
    return note(error.message, false);
  }
  note(words, true);
  (row.nextElementSibling ?? row).focus(); // a disabled button cannot keep it
}

const setLabel = (id, key, value) => () => request(imageAddress(state.facts.in_links, id), { ...jsonBody({ labels: { [key]: value } }), method: "PATCH" });

function onKey(event) {
  const row = event.target;
  if (!row.matches(".finding") || event.ctrlKey || event.metaKey || event.altKey) return;
  const other = { j: row.nextElementSibling, k: row.previousElementSibling }[event.key];
  if (other) other.focus();
  else row.querySelector(`button[data-key="${CSS.escape(event.key)}"]:not(:disabled)`)?.click();
}

function suspect(key, item, { corrected, decided }) {
  const { words = "", isDone = false } = decided.get(item.image_id) ?? (item.image_id in corrected ? { words: "Changed", isDone: true } : {});
  const images = [{ id: item.image_id, caption: item.label, kind: "subject" }, ...item.neighbours.slice(0, NEIGHBOURS).map((id) => ({ id, caption: item.suggested }))];
  const button = (sign, text, kind, action) => html`<button class=${`button small ${kind}`} type="button" data-key=${sign} ?disabled=${isDone} @click=${({ target }) => action(target.closest(".finding"))}>${text}</button>`;
  const below = html`<div class="buttons">
    ${button("y", `Change to ${item.suggested}`, "primary", (row) => decide(item, row, "Changed", setLabel(item.image_id, key, item.suggested)))}
    ${button("n", `Keep ${item.label}`, "", (row) => decide(item, row, "Kept"))}
    <span class="hint" role="status">${words}</span></div>`;
  return finding(`${fixed(item.suspicion, 3)} · ${item.label} → ${item.suggested}`, images, { below, kind: isDone ? "decided" : "", isFocusable: true });
}

const suspects = ({ key, items }, now) => html`<div class="findings" @keydown=${onKey}>${items.map((item) => suspect(key, item, now))}</div>`;

const PERCENT = { style: "percent", maximumFractionDigits: 2 };
const MEMBERS = 12; // pictures of a group
const LISTED_MEMBERS = 50; // the service names no more of a group
const KINDS = { patient: "the same patient", study: "the same study", picture: "the same picture", "near-duplicate": "near-duplicates" };

const hint = (text) => html`<p class="hint">${text}</p>`;
const rows = (items) => (items.length ? html`<div class="findings">${items}</div>` : hint("None were found."));
const changeText = (change) => change.replace("gamma", "brightness").replaceAll("+", ", ");

function duplicateRow(members) {
  const count = trn("{count} image", "{count} images", members.length) + (members.length < LISTED_MEMBERS ? "" : " +");
  return finding(count, members.slice(0, MEMBERS).map(({ image_id: id, change }) => ({ id, caption: changeText(change) })));
}

const leakRow = ({ kind, images }) => finding(KINDS[kind] ?? kind, images.slice(0, MEMBERS).map(({ image_id: id, part }) => ({ id, caption: part })));

const outlierRow = ({ image_id: id, likeness }) => finding(`${number(likeness, PERCENT)} of the images are as far from others`, [{ id }]);

function labels(found, now) {
  if (!found) return hint("Choose a label to look for errors in it.");
  if (!found.items.length) return rows([]);
  return html`${valueTable(found)}${hint("Beside each image are its nearest images with the other value. Y changes the label, N keeps it, J and K go on and back.")}${suspects(found, now)}`;
}

/** How many labels of each value are suspect, and what they look like. */
function valueTable({ values, confusions }) {
  const lines = values.filter((each) => each.suspects).map(({ value, images, suspects: count }) => {
    const others = confusions.filter(({ label }) => label === value).map((other) => `${other.suggested} (${number(other.images)})`);
    return [value, number(images), number(count), number(count / images, PERCENT), others.join(", ")];
  });
  return html`<details><summary>By value</summary>${table(["Value", "Images", "Suspect", "Share", "Looks like"], lines)}</details>`;
}

function weeksOf(weeks) {
  if (!weeks.length) return hint("Images were added in too few weeks to compare.");
  const week = ({ monday, images, p, alarm }) => html`<i class=${alarm ? "alarm" : ""} .style=${`height: ${Math.max(2, 28 * (1 - p) ** 4)}px`} title=${`${monday}: ${trn("{count} image", "{count} images", images)}, p = ${fixed(p, 4)}`}></i>`;
  return html`<div class="weeks">${weeks.map(week)}</div>`;
}

function drift({ sources }) {
  if (!sources.some(({ weeks }) => weeks.length)) return weeksOf([]);
  const lines = sources.map(({ source, images, alarms, weeks }) => [source, number(images), number(alarms), weeksOf(weeks)]);
  const alarms = sources.flatMap(({ source, weeks }) => weeks.filter((week) => week.alarm).map(({ monday, image_ids: ids }) => finding(`${source} · ${monday}`, ids.map((id) => ({ id })))));
  return html`${table(["Source", "Images", "Alarms", "Weeks"], lines)}${alarms.length ? rows(alarms) : nothing}`;
}

const warned = (isWarned, text) => html`<span class=${isWarned ? "warn" : ""}>${text}</span>`;

function groupTable(groups) {
  const interval = ({ difference, low, high }) => `${fixed(difference, 3)} (${fixed(low, 3)} – ${fixed(high, 3)})`;
  const lines = groups.map((group) => [group.key, warned(group.worse, group.value), number(group.images), fixed(group.precision, 3), interval(group), fixed(group.p, 4)]);
  return html`<h2>Retrieval by group</h2>${table(["Label", "Group", "Images", "P@10", "Difference to others of the same label", "p"], lines)}`;
}

function labelTable({ key, values }) {
  const most = Math.max(...values.map(({ images }) => images), 1);
  const named = ({ value, thin }) => warned(thin, thin ? `${value} (few)` : value);
  const lines = values.map((each) => [named(each), number(each.images), each.patients === null ? "–" : number(each.patients), bar(each.images / most)]);
  return html`<h2>${key}</h2>${table(["Value", "Images", "Patients", "Share"], lines)}`;
}

/** The tabs {name, title, count, show} of the audit of a state. */
export function findings({ audit }) {
  const checked = audit.drift.sources.some(({ weeks }) => weeks.length);
  const leaked = audit.leaks && Object.values(audit.leaks.counts).reduce((sum, count) => sum + count, 0);
  return [
    { name: "labels", title: "Labels", count: audit.labels?.suspects, show: (now) => labels(audit.labels, now) },
    { name: "duplicates", title: "Duplicates", count: audit.duplicates.groups, show: () => rows(audit.duplicates.items.map(duplicateRow)) },
    { name: "leaks", title: "Leaks", count: leaked, show: () => (audit.leaks ? rows(audit.leaks.items.map(leakRow)) : hint("Choose the label of the split to look for leaks.")) },
    { name: "outliers", title: "Outliers", count: audit.outliers.images, show: () => rows(audit.outliers.items.map(outlierRow)) },
    { name: "drift", title: "Drift", count: checked ? audit.drift.alarms : null, show: () => drift(audit.drift) },
    { name: "coverage", title: "Coverage", count: audit.coverage.thin, show: () => html`${audit.groups?.length ? groupTable(audit.groups) : nothing}${audit.coverage.labels.map(labelTable)}` },
  ];
}
