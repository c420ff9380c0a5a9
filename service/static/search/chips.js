// What stands above the results: filters as chips with counts, the choice of one result per patient, how large pictures are; and what researchers
// see: the method and its parameters, before and after, scores, timings, in English.

import { parse, toggle } from "../browse/conditions.js";
import { wordsOf } from "../card.js";
import { callParts, state, update } from "../page_state.js";
import { remember } from "../theme.js";
import { fixed, number, tr, trn } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { changeSettings, changeView, shownHits } from "./run.js";
import { ALL_IMAGES } from "./search_fields.js";
import { keysInOrder } from "./verdict.js";

const FEW = 6; // values that are shown at once

const toggled = (condition) => changeSettings({ where: toggle(state.settings.where, condition) });

/** How many images meet conditions: one that the menu lists; undefined where that is not known. */
function countOf([condition, other], { filters }) {
  const { key, operator, value } = parse(condition) ?? {};
  return other === undefined && operator === "=" ? filters[key]?.find(([each]) => each === value)?.[1] : undefined;
}

/** A condition that is on: the value alone, with its count of images, where it is one that the menu lists. */
function activeChip(condition, facts) {
  const { key, value } = parse(condition) ?? {};
  const listed = countOf([condition], facts);
  const name = !listed ? condition : Number.isNaN(Number(value)) ? value : `${wordsOf(key)} ${value}`;
  return html`<button class="pill on" type="button" data-condition=${condition} title=${condition} @click=${() => toggled(condition)}>${name} <small>${listed ? number(listed) : ""}</small> <span aria-hidden="true">×</span><span class="unseen">${tr("Remove the filter {condition}", { condition })}</span></button>`;
}

function facet([key, values], { facts, settings: { where } }, isFirst) {
  const chosen = values.filter(([value]) => where.includes(`${key}=${value}`)).length;
  return html`<details ?open=${isFirst || chosen > 0 || values.length <= FEW}><summary>${wordsOf(key)}${chosen ? ` · ${chosen}` : ""}</summary>${values.map(([value, count]) => {
    const condition = `${key}=${value}`;
    return html`<label class="check"><input type="checkbox" data-condition=${condition} .checked=${where.includes(condition)} @change=${() => toggled(condition)} /> <span>${value}</span> <small>${number(count)}</small></label>`;
  })}${values.length < facts.max_values ? nothing : html`<p class="hint">${tr("The most frequent; type others below.")}</p>`}</details>`;
}

function addTyped(event) {
  event.preventDefault();
  const conditions = event.target.where.value.split(";").map((text) => text.trim()).filter(Boolean);
  event.target.reset();
  if (conditions.length) changeSettings({ where: [...new Set([...state.settings.where, ...conditions])] });
}

function filterMenu(now) {
  const { facts } = now;
  const keys = keysInOrder(Object.keys(facts.filters)).map((key) => [key, facts.filters[key]]);
  return html`<button class="pill" type="button" id="add-filter" popovertarget="filter-menu">+ ${tr("Filter")}</button>
    <div class="choices filters" id="filter-menu" popover>
      ${keys.map((entry, index) => facet(entry, now, index === 0))}
      <form @submit=${addTyped}><input type="text" name="where" id="where" list="label-keys" placeholder=${tr("{key} >= 40", { key: facts.label_keys.includes("age") ? "age" : (facts.label_keys[0] ?? "key") })} aria-label=${tr("Only images with")} autocomplete="off" spellcheck="false" />
        <datalist id="label-keys">${facts.label_keys.map((key) => html`<option value=${`${key}=`}></option>`)}</datalist>
        <p class="hint">${tr("A condition with =, !=, >= or <=, then Enter.")}</p></form>
      <button class="done" type="button" popovertarget="filter-menu" popovertargetaction="hide">${tr("Done")}</button>
    </div>`;
}

const GROUPS = () => ({ patient: tr("One per known patient"), study: tr("One per study"), series: tr("One per series"), [ALL_IMAGES]: tr("Every image") });

function groupMenu({ facts, settings }) {
  const groups = { ...GROUPS(), ...Object.fromEntries(keysInOrder(Object.keys(facts.filters)).map((key) => [`label:${key}`, tr("One per {label}", { label: wordsOf(key) })])) };
  const choose = (group) => changeSettings({ group });
  return html`<button class="pill" type="button" id="group" popovertarget="group-menu">${groups[settings.group] ?? settings.group} <span aria-hidden="true">▾</span></button>
    <div class="choices" id="group-menu" popover role="group" aria-label=${tr("One result per")}>
      ${Object.entries(groups).map(([group, title]) => html`<button type="button" data-group=${group} aria-pressed=${String(group === settings.group)} @click=${() => choose(group)}>${title}</button>`)}
      <label class="check" for="own-study"><input type="checkbox" id="own-study" .checked=${!settings.ownStudy} @change=${({ target }) => changeSettings({ ownStudy: !target.checked })} /> ${tr("Without the query's own study")}</label>
    </div>`;
}

function size({ small }) {
  const choose = (value) => {
    remember("small-cards", value ? "yes" : "no");
    update({ small: value });
  };
  return html`<span class="sizes"><button class="sign" type="button" aria-pressed=${String(!small)} title=${tr("Large pictures")} aria-label=${tr("Large pictures")} @click=${() => choose(false)}>▦</button><button class="sign" type="button" aria-pressed=${String(Boolean(small))} title=${tr("Small pictures")} aria-label=${tr("Small pictures")} @click=${() => choose(true)}>▩</button></span>`;
}

export function chips(now) {
  const { answer, settings, facts } = now;
  const [count, { where }] = [answer?.results.length ?? 0, settings];
  const images = where.length ? countOf(where, facts) : facts.images;
  return html`<div class="chips" id="chips">
    ${where.map((condition) => activeChip(condition, facts))}
    ${filterMenu(now)}
    ${groupMenu(now)}
    ${callParts("options", now)}
    <span class="tally">${answer ? html`<span role="status" id="tally">${images ? tr("{count} of {images}", { count, images }) : trn("{count} result", "{count} results", count)}</span>` : nothing}${size(now)}</span>
  </div>`;
}

const VIEWS = () => ({ before: tr("Before"), after: tr("After re-ranking"), both: tr("Side by side") });

function parameterField(info, { settings, chosen }) {
  const change = ({ target }) => {
    if (!target.reportValidity()) return;
    const { [info.name]: _, ...rest } = settings.parameters;
    changeSettings({ parameters: target.value === "" ? rest : { ...rest, [info.name]: Number(target.value) } });
  };
  const about = `${info.description}; ${info.minimum} to ${info.maximum}`;
  return html`<label class="parameter" for=${`parameter-${info.name}`} title=${about}><span>${info.name} <small>${info.description}</small></span>
    <input type="number" id=${`parameter-${info.name}`} name=${info.name} min=${info.minimum} max=${info.maximum} step=${info.whole ? 1 : "any"} placeholder=${(settings.parameters.preset ? chosen.paper : chosen.defaults)[info.name] ?? ""} .value=${settings.parameters[info.name] ?? ""} @change=${change} /></label>`;
}

function presetField({ settings: { parameters } }) {
  const { preset, ...rest } = parameters;
  const change = ({ target }) => changeSettings({ parameters: target.checked ? { preset: "paper", ...rest } : rest });
  return html`<label class="check" for="preset"><input type="checkbox" id="preset" .checked=${Boolean(preset)} @change=${change} /> Values of the paper</label>`;
}

function methodFields({ facts, settings }) {
  const chosen = facts.rerankers.find(({ name }) => name === settings.rerank);
  return html`<label for="rerank">Re-ranking <select id="rerank" @change=${({ target }) => changeSettings({ rerank: target.value, parameters: {} })}>
      <option value="auto" ?selected=${settings.rerank === "auto"}>Automatic</option>
      ${facts.rerankers.map(({ name, title }) => html`<option value=${name} ?selected=${name === settings.rerank}>${title}</option>`)}
    </select></label>
    <label for="k">Results <input type="number" id="k" min="1" max=${facts.max_results} step="1" .value=${String(settings.k)} @change=${({ target }) => target.reportValidity() && changeSettings({ k: target.valueAsNumber })} /></label>
    ${chosen?.parameters.length
      ? html`<details class="parameters" id="parameters"><summary>Parameters${Object.entries(settings.parameters).map(([name, value]) => ` · ${name}=${value}`)}</summary>${chosen.paper ? presetField({ settings }) : nothing}${chosen.parameters.map((info) => parameterField(info, { settings, chosen }))}</details>`
      : nothing}
    <p class="hint" id="explanation">${chosen?.description ?? "The method that is best for this collection; the answer says which one and why."}</p>`;
}

function summary({ answer }) {
  const { rerank, timings_ms: times, before, grouping } = answer;
  const stages = Object.entries(times).filter(([stage]) => stage !== "total").map(([stage, ms]) => `${stage} ${fixed(ms, 1)}`);
  const moved = (sign) => answer.results.filter((hit) => moveOf(hit).sign.startsWith(sign)).length;
  return html`<p class="summary" id="summary"><b>${rerank.method}</b>${rerank.reason ? ` (auto: ${rerank.reason})` : ""}${rerank.scope === "collection" ? "" : ` · ${rerank.scope}`}${grouping ? ` · one per ${grouping.by} among ${grouping.depth}` : ""}
    ${before ? html` · <span class="moves">▲ ${moved("▲")} ▼ ${moved("▼")} new ${moved("new")}</span>` : nothing} · ${Math.round(times.total)} ms <span class="stages">(${stages.join(" · ")})</span></p>
    ${rerank.notes.length ? html`<ul class="notes" id="notes">${rerank.notes.map((note) => html`<li>${note}</li>`)}</ul>` : nothing}`;
}

export function expertPanel(now) {
  const { answer, settings } = now;
  return html`<div class="expert" id="expert-panel" role="group" aria-label="Expert">
    ${methodFields(now)}
    ${answer?.before ? html`<fieldset class="switch" id="views"><legend class="unseen">Show</legend>${Object.entries(VIEWS()).map(([view, title]) => html`<label><input type="radio" name="view" value=${view} .checked=${settings.view === view} @change=${() => changeView(view)} /><span>${title}</span></label>`)}</fieldset>` : nothing}
    ${answer ? summary(now) : nothing}
  </div>`;
}

/** The number of decimals, from 3 to 7, at which most scores of a list differ. */
function decimalsFor(scores) {
  const isEnough = (digits) => new Set(scores.map((score) => score.toFixed(digits))).size > scores.length / 2;
  return [3, 4, 5, 6].find(isEnough) ?? (scores.length > 1 ? 7 : 3);
}

/** How a result moved: {sign, words} against its rank without re-ranking, of which `depth` are known. */
function moveOf({ rank, rank_before: before }, depth) {
  if (before === null || before === undefined) return { sign: "new", words: `from beyond rank ${depth}` };
  if (before === rank) return { sign: "=", words: "not moved" };
  return before > rank ? { sign: `▲${before - rank}`, words: `up ${before - rank}, from rank ${before}` } : { sign: `▼${rank - before}`, words: `down ${rank - before}, from rank ${before}` };
}

export function expertFigures(hit, now, list) {
  const digits = decimalsFor(shownHits(now, list).map(({ score }) => score));
  const move = list === "after" && now.answer.before && !hit.site && typeof hit.rank === "number" ? moveOf(hit, now.answer.before.depth) : null;
  return html`<span class="figures"><span title="larger is better; comparable within this list only">score ${fixed(hit.score, digits)}</span> <span title="0 for equal values; comparable between searches of this collection">distance ${fixed(hit.distance, 2)}</span>${move ? html` <span class="move" role="img" title=${move.words} aria-label=${move.words}>${move.sign}</span>` : nothing}</span>`;
}
