// The sections of the page for administrators, drawn from its state.

import { update } from "../page_state.js";
import { number, tr, trn } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { isActive, requestTable } from "./figures.js";
import { duration, jobState, jobTitle, maker, partState, partWords, size, time } from "./words.js";

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

function part(each) {
  const { title, text } = partWords(each);
  return html`<li class="part" data-tone=${GOOD.includes(each.state) ? "good" : each.state === "off" ? "off" : "bad"}><strong>${title}</strong><span>${text}</span></li>`;
}

function health({ health: now }) {
  if (!now) return nothing;
  const load = [
    [tr("Running for"), duration((Date.now() - new Date(now.started)) / 1000)],
    [tr("Requests at work"), tr("{working} of {threads}", now)],
    [tr("Requests waiting"), tr("{waiting} of {queue}", now)],
    ...(now.memory_bytes === null ? [] : [[tr("Memory in use"), size(now.memory_bytes)]]),
    ...now.disks.map(({ folder, free_bytes, total_bytes }) => [tr("Disk of {folder}", { folder }), tr("{free} free of {total}", { free: size(free_bytes), total: size(total_bytes) })]),
  ];
  return html`<ul class="parts" id="parts" role="list">${now.parts.map(part)}</ul>${facts(load, "load")}
    <details><summary>${tr("Versions")}</summary>${facts(Object.entries(now.versions), "versions")}</details>`;
}

function collections({ collections: items }) {
  const titles = [tr("Name"), tr("State"), tr("Images"), tr("Size"), tr("Profile"), tr("Descriptor"), tr("Generation"), tr("Last change")];
  const cells = ({ name, folder, state, info, changed }) => [
    folder ? tr("{name} (folder {folder})", { name, folder }) : name,
    partState(state),
    ...(info ? [number(info.images), size(info.bytes_on_disk), info.profile, info.descriptor, number(info.generation), time(changed)] : Array(6).fill("")),
  ];
  return table("collections", titles, items.map((each) => ({ key: each.name, cells: cells(each) })), [2, 3, 6]);
}

function job(each, { cancel, retry }) {
  const { state, done, total, refused, created, ended, waits_for: waits, error, summary } = each;
  const looked = total === null ? trn("{count} file", "{count} files", done) : tr("{done} of {total} files", { done, total });
  const figures = Object.entries(summary ?? {}).filter(([, value]) => typeof value === "number" && value > 0);
  const notes = [
    ended ? tr("{from} to {to}", { from: time(created), to: time(ended) }) : time(created),
    waits && tr("Waits for: {reason}", { reason: waits }),
    error,
    figures.map(([name, value]) => `${name.replaceAll("_", " ")}: ${number(value)}`).join(" · "),
  ];
  const button = (words, act) => html`<button class="button small" type="button" @click=${() => act(each)}>${words}</button>`;
  return html`<li class="job" data-state=${state}><strong>${jobTitle(each)}</strong><span class="phase">${jobState(state)}</span>
    ${isActive(each) ? html`<progress aria-label=${tr("Progress of the job")} max=${total || nothing} value=${total ? done : nothing}></progress>` : nothing}
    <span class="count">${refused ? tr("{looked}, {refused} refused", { looked, refused }) : looked}</span>
    ${isActive(each) ? button(tr("Cancel"), cancel) : ["failed", "cancelled"].includes(state) ? button(tr("Try again"), retry) : nothing}
    <p class="hint">${notes.filter(Boolean).join(" · ")}</p></li>`;
}

function jobs({ jobs: items, allJobs, actions }) {
  if (!items) return nothing;
  const shown = items.filter((each, index) => allJobs || index < SHOWN_JOBS || isActive(each));
  return html`<ul class="jobs" id="jobs" role="list">${repeat(shown, (each) => each.job, (each) => job(each, actions))}</ul>
    ${items.length ? nothing : html`<p class="hint">${tr("No jobs yet.")}</p>`}
    ${shown.length < items.length ? html`<button class="button small" type="button" @click=${() => update({ allJobs: true })}>${tr("Show all")}</button>` : nothing}`;
}

/** A check box that changes what is shown. */
const choice = (name, words) => html`<label class="check"><input type="checkbox" @change=${({ target }) => update({ [name]: target.checked })} /> ${words}</label>`;

function tokens({ tokens: items, endedTokens, needsTokens, actions }) {
  const shown = items.filter(({ state }) => endedTokens || state === "valid");
  const titles = [tr("Token"), tr("Name"), tr("Scopes"), tr("Limited to"), tr("Created"), tr("Made by"), tr("Last use"), tr("Expires"), html`<span class="unseen">${tr("Actions")}</span>`];
  const row = (token) => {
    const { token_id: id, name, state, scopes, created, made_by, last_used, expires } = token;
    const limits = [...token.collections, ...token.where].join(", ") || tr("everything");
    const ends = state === "revoked" ? tr("revoked") : state === "expired" ? tr("expired {time}", { time: time(expires) }) : time(expires, tr("never"));
    const revoke = html`<button class="button small" type="button" aria-label=${tr("Revoke the token {id}", { id })} @click=${() => actions.revoke(token)}>${tr("Revoke …")}</button>`;
    return { key: `${id} ${state}`, cells: [id, name, scopes.join(", "), limits, time(created), maker(made_by), time(last_used, tr("never")), ends], tail: state === "valid" ? revoke : html`` };
  };
  return html`${needsTokens
      ? html`<p class="buttons"><button class="button small primary" type="button" @click=${actions.create}>${tr("Create a token …")}</button> ${choice("endedTokens", tr("Show expired and revoked ones"))}</p>`
      : html`<p class="hint">${tr("This service needs no tokens: it answers requests from this machine only.")}</p>`}
    ${shown.length ? table("tokens", titles, shown.map(row)) : nothing}`;
}

function columnTitle({ action, method, outcome }) {
  if (outcome === "refused") return tr("refused");
  if (outcome === "failed") return tr("failed");
  return method ? tr("{action}, {method}", { action, method }) : action;
}

function requests({ requests: items }) {
  const { columns, rows } = requestTable(items);
  const shown = rows.map(({ day, counts }) => ({ key: day, cells: [day, ...counts.map((count) => number(count))] }));
  return html`<p class="hint">${tr("By day (UTC), without names of callers and images. The audit log has the single requests.")}</p>
    ${rows.length ? table("requests", [tr("Day"), ...columns.map(columnTitle)], shown, columns.map((_, index) => index + 1)) : nothing}`;
}

function settings({ settings: items, defaultSettings }) {
  const shown = items.filter(({ origin }) => defaultSettings || origin !== "default");
  const rows = shown.map(({ name, value, origin, description }) => ({ key: name, cells: [name, value, origin, description] }));
  return html`<p class="buttons">${choice("defaultSettings", tr("Show defaults too"))}</p>
    ${rows.length ? table("settings", [tr("Setting"), tr("Value"), tr("From"), tr("Meaning")], rows) : html`<p class="hint">${tr("All settings have their defaults.")}</p>`}`;
}

const SECTIONS = [
  ["health", tr("Health"), health],
  ["collections", tr("Collections"), collections],
  ["jobs", tr("Jobs"), jobs],
  ["tokens", tr("Tokens"), tokens],
  ["requests", tr("Requests"), requests],
  ["settings", tr("Settings"), settings],
];

/** The page for a state. */
export function page(now) {
  const { problem } = now;
  return html`<nav class="sections" aria-label=${tr("Sections")}>${SECTIONS.map(([name, title]) => html`<a href=${`#${name}-title`}>${title}</a>`)}<a href="/docs">${tr("API")}</a></nav>
    ${problem ? html`<section class="state problem" role="alert"><h2>${problem.title}</h2><p>${problem.message}</p></section>` : nothing}
    ${SECTIONS.map(([name, title, body]) => html`<section aria-labelledby=${`${name}-title`}><h2 id=${`${name}-title`}>${title}</h2>${body(now)}</section>`)}`;
}
