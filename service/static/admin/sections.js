// The sections of the page for administrators, drawn from its state.

import { problemBox } from "../list_page.js";
import { update } from "../page_state.js";
import { size } from "../problems.js";
import { language, number } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const SPANS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 0]];

/** A time span in seconds, in the largest whole unit; less than none, as where this clock is behind the service's, is none. */
export function duration(seconds) {
  const span = Math.max(seconds, 0);
  const [unit, length] = SPANS.find(([, least]) => span >= least);
  return number(Math.floor(span / (length || 1)), { style: "unit", unit, unitDisplay: "long" });
}

/** A point in time, or `absent` for null. */
const time = (iso, absent = "–") => (iso ? new Date(iso).toLocaleString(language, { dateStyle: "short", timeStyle: "short" }) : absent);

const capitalised = (name) => name[0].toUpperCase() + name.slice(1);

/** The tokens that a token has made, those that they have made, and so on, from a list with the newest first. */
export function madeBy(tokens, id) {
  const makers = new Set([`token ${id}`]);
  return [...tokens].reverse().filter(({ token_id, made_by }) => makers.has(made_by) && makers.add(`token ${token_id}`));
}

/**
 * Requests [{day, action, method, outcome, count}] as a table {columns, rows}: a row [day, ...counts] for each day, newest
 * first, and the title of a column for what was done, the most frequent first; refused and failed ones are last.
 */
export function requestTable(items) {
  const totals = new Map();
  const days = new Map();
  for (const { day, action, method, outcome, count } of items) {
    const title = outcome !== "done" ? outcome : method ? `${action}, ${method}` : action;
    totals.set(title, (totals.get(title) ?? 0) + count);
    if (!days.has(day)) days.set(day, {});
    days.get(day)[title] = (days.get(day)[title] ?? 0) + count;
  }
  const isLast = (title) => title === "refused" || title === "failed";
  const columns = [...totals.keys()].sort((a, b) => isLast(a) - isLast(b) || totals.get(b) - totals.get(a));
  const rows = [...days.keys()].sort().reverse().map((day) => [day, ...columns.map((title) => days.get(day)[title] ?? 0)]);
  return { columns, rows };
}

export const isActive = ({ state }) => state === "waiting" || state === "running";

const GOOD = ["ok", "ready"];
const SHOWN_JOBS = 10; // and all that have not ended

const facts = (items, id) => html`<dl class="figures" id=${id}>${repeat(items, ([term]) => term, ([term, text]) => html`<div><dt>${term}</dt><dd>${text}</dd></div>`)}</dl>`;

/** A table of rows {key, cells, tail}; the first cell is the row's header. numbers: indices of columns of numbers. */
function table(id, titles, rows, numbers = []) {
  const kind = (index) => (numbers.includes(index) ? "number" : "");
  const row = ({ cells, tail }) =>
    html`<tr>${cells.map((text, index) => (index ? html`<td class=${kind(index)}>${text}</td>` : html`<th scope="row">${text}</th>`))}${tail ? html`<td class="tail">${tail}</td>` : nothing}</tr>`;
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby=${`${id}-title`}><table>
    <thead><tr>${titles.map((title, index) => html`<th scope="col" class=${kind(index)}>${title}</th>`)}</tr></thead>
    <tbody id=${id}>${repeat(rows, ({ key }) => key, row)}</tbody></table></div>`;
}

const part = ({ name, state }) =>
  html`<li class="part" data-tone=${GOOD.includes(state) ? "good" : state === "off" ? "off" : "bad"}><strong>${capitalised(name)}</strong><span>${state}</span></li>`;

function health({ health: now }) {
  if (!now) return nothing;
  const load = [
    ["Running for", duration((Date.now() - new Date(now.started)) / 1000)],
    ["Requests at work", `${number(now.working)} of ${number(now.threads)}`],
    ["Requests waiting", `${number(now.waiting)} of ${number(now.queue)}`],
    ...(now.memory_bytes === null ? [] : [["Memory in use", size(now.memory_bytes)]]),
    ...now.disks.map(({ folder, free_bytes, total_bytes }) => [`Disk of ${folder}`, `${size(free_bytes)} free of ${size(total_bytes)}`]),
  ];
  return html`<ul class="parts" id="parts" role="list">${now.parts.map(part)}</ul>${facts(load, "load")}
    <details><summary>Versions</summary>${facts(Object.entries(now.versions), "versions")}</details>`;
}

function collections({ collections: items }) {
  const titles = ["Name", "State", "Images", "Size", "Profile", "Descriptor", "Generation", "Last change"];
  const cells = ({ name, folder, state, info, changed }) => [
    folder ? `${name} (folder ${folder})` : name,
    state,
    ...(info ? [number(info.images), size(info.bytes_on_disk), info.profile, info.descriptor, number(info.generation), time(changed)] : Array(6).fill("")),
  ];
  return table("collections", titles, items.map((each) => ({ key: each.name, cells: cells(each) })), [2, 3, 6]);
}

function job(each, { cancel, retry }) {
  const { kind, collection, state, done, total, refused, created, ended, waits_for: waits, error, summary } = each;
  const looked = `${number(done)}${total === null ? "" : ` of ${number(total)}`} file${(total ?? done) === 1 ? "" : "s"}`;
  const figures = Object.entries(summary ?? {}).filter(([, value]) => typeof value === "number" && value > 0);
  const notes = [
    ended ? `${time(created)} to ${time(ended)}` : time(created),
    waits && `Waits for: ${waits}`,
    error,
    figures.map(([name, value]) => `${name.replaceAll("_", " ")}: ${number(value)}`).join(" · "),
  ];
  const button = (words, act) => html`<button class="button small" type="button" @click=${() => act(each)}>${words}</button>`;
  return html`<li class="job" data-state=${state}><strong>${`${capitalised(kind)}: ${collection}`}</strong><span class="phase">${capitalised(state)}</span>
    ${isActive(each) ? html`<progress aria-label="Progress of the job" max=${total || nothing} value=${total ? done : nothing}></progress>` : nothing}
    <span class="count">${looked}${refused ? `, ${number(refused)} refused` : ""}</span>
    ${isActive(each) ? button("Cancel", cancel) : ["failed", "cancelled"].includes(state) ? button("Try again", retry) : nothing}
    <p class="hint">${notes.filter(Boolean).join(" · ")}</p></li>`;
}

function jobs({ jobs: items, allJobs, actions }) {
  if (!items) return nothing;
  const shown = items.filter((each, index) => allJobs || index < SHOWN_JOBS || isActive(each));
  return html`<ul class="jobs" id="jobs" role="list">${repeat(shown, (each) => each.job, (each) => job(each, actions))}</ul>
    ${items.length ? nothing : html`<p class="hint">No jobs yet.</p>`}
    ${shown.length < items.length ? html`<button class="button small" type="button" @click=${() => update({ allJobs: true })}>Show all</button>` : nothing}`;
}

const choice = (name, words) => html`<label class="check"><input type="checkbox" @change=${({ target }) => update({ [name]: target.checked })} /> ${words}</label>`;

function tokens({ tokens: items, endedTokens, needs_tokens: needsTokens, actions }) {
  const shown = items.filter(({ state }) => endedTokens || state === "valid");
  const titles = ["Token", "Name", "Scopes", "Limited to", "Created", "Made by", "Last use", "Expires", html`<span class="unseen">Actions</span>`];
  const row = (token) => {
    const { token_id: id, name, state, scopes, created, made_by, last_used, expires } = token;
    const limits = [...token.collections, ...token.where].join(", ") || "everything";
    const ends = state === "revoked" ? "revoked" : state === "expired" ? `expired ${time(expires)}` : time(expires, "never");
    const revoke = html`<button class="button small" type="button" aria-label=${`Revoke the token ${id}`} @click=${() => actions.revoke(token)}>Revoke …</button>`;
    return { key: `${id} ${state}`, cells: [id, name, scopes.join(", "), limits, time(created), made_by?.replace(/^user /, "") ?? "command line", time(last_used, "never"), ends], tail: state === "valid" ? revoke : html`` };
  };
  return html`${needsTokens
      ? html`<p class="buttons"><button class="button small primary" type="button" @click=${actions.create}>Create a token …</button> ${choice("endedTokens", "Show expired and revoked ones")}</p>`
      : html`<p class="hint">This service needs no tokens: it answers requests from this machine only.</p>`}
    ${shown.length ? table("tokens", titles, shown.map(row)) : nothing}`;
}

export function tokenFields({ scopes, names }) {
  const box = (name, value, isOn) => html`<label class="check"><input type="checkbox" name=${name} value=${value} ?checked=${isOn} /> <code>${value}</code></label>`;
  const field = (name, title, hint, { maxlength = nothing, placeholder = nothing } = {}) => html`<div class="field"><label for=${`token-${name}`}>${title}</label>
    <input id=${`token-${name}`} name=${name} maxlength=${maxlength} autocomplete="off" placeholder=${placeholder} aria-describedby=${hint ? `${name}-hint` : nothing} />${hint ? html`<p class="hint" id=${`${name}-hint`}>${hint}</p>` : nothing}</div>`;
  return html`${field("name", "Name", "", { maxlength: 100, placeholder: "Owner or purpose" })}
    <fieldset><legend>Scopes</legend>${scopes.map((scope, index) => box("scope", scope, !index))}</fieldset>
    ${field("expires", "Expires", "12h, 90d, 4w, a day like 2030-12-31, or never. Empty: in 90 days, or with your own token.")}
    ${names.length > 1 ? html`<fieldset><legend>Only these collections (none: all)</legend>${names.map((name) => box("collection", name, false))}</fieldset>` : nothing}
    ${field("where", "Only images with", "", { placeholder: "site=A" })}`;
}

export function tokenRequest(fields) {
  const text = (name) => fields.get(name).trim();
  const where = text("where").split(",").map((condition) => condition.trim()).filter(Boolean);
  return { scopes: fields.getAll("scope"), name: text("name"), expires: text("expires") || null, collections: fields.getAll("collection"), where };
}

function requests({ requests: items }) {
  const { columns, rows } = requestTable(items);
  const shown = rows.map(([day, ...counts]) => ({ key: day, cells: [day, ...counts.map((count) => number(count))] }));
  return html`<p class="hint">By day (UTC), without names of callers and images. The audit log has the single requests.</p>
    ${rows.length ? table("requests", ["Day", ...columns], shown, columns.map((_, index) => index + 1)) : nothing}`;
}

function settings({ settings: items, defaultSettings }) {
  const shown = items.filter(({ origin }) => defaultSettings || origin !== "default");
  const rows = shown.map(({ name, value, origin, description }) => ({ key: name, cells: [name, value, origin, description] }));
  return html`<p class="buttons">${choice("defaultSettings", "Show defaults too")}</p>
    ${rows.length ? table("settings", ["Setting", "Value", "From", "Meaning"], rows) : html`<p class="hint">All settings have their defaults.</p>`}`;
}

const SECTIONS = { health, collections, jobs, tokens, requests, settings };

export function page(now) {
  const section = ([name, body]) => html`<section aria-labelledby=${`${name}-title`}><h2 id=${`${name}-title`}>${capitalised(name)}</h2>${body(now)}</section>`;
  return html`<nav class="sections" aria-label="Sections">${Object.keys(SECTIONS).map((name) => html`<a href=${`#${name}-title`}>${capitalised(name)}</a>`)}<a href="/docs">API</a></nav>
    ${problemBox(now)}
    ${Object.entries(SECTIONS).map(section)}`;
}
