// Filters as chips with counts, the choice of one result per patient, and how large pictures are.

import { toggle } from "../browse/conditions.js";
import { callParts, state, update } from "../page_state.js";
import { remember } from "../theme.js";
import { number, tr } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { changeSettings } from "./run.js";
import { ALL_IMAGES } from "./search_fields.js";

const TICKS = 12; // values of a label that are listed
const FEW = 6; // values that are shown at once

const toggled = (condition) => changeSettings({ where: toggle(state.settings.where, condition) });

/** The count of images with a condition, "" where it is not known. */
function countOf(condition, { filters }) {
  const [key, value] = condition.split(/=(.*)/s);
  const found = filters[key]?.find(([each]) => each === value);
  return found ? number(found[1]) : "";
}

/** A condition in few words: the value alone where it is one of a key. */
const shortName = (condition, { filters }) => {
  const [key, value] = condition.split(/=(.*)/s);
  if (!filters[key]?.some(([each]) => each === value)) return condition;
  return Number.isNaN(Number(value)) ? value : `${key} ${value}`;
};

function activeChip(condition, facts) {
  const name = shortName(condition, facts);
  return html`<button class="pill on" type="button" data-condition=${condition} title=${condition} @click=${() => toggled(condition)}>${name} <small>${countOf(condition, facts)}</small> <span aria-hidden="true">×</span><span class="unseen">${tr("Remove the filter {condition}", { condition })}</span></button>`;
}

function facet([key, values], where) {
  const chosen = values.filter(([value]) => where.includes(`${key}=${value}`)).length;
  return html`<details ?open=${chosen > 0 || values.length <= FEW}><summary>${key}${chosen ? ` · ${chosen}` : ""}</summary>${values.slice(0, TICKS).map(([value, count]) => {
    const condition = `${key}=${value}`;
    return html`<label class="check"><input type="checkbox" data-condition=${condition} .checked=${where.includes(condition)} @change=${() => toggled(condition)} /> <span>${value}</span> <small>${number(count)}</small></label>`;
  })}</details>`;
}

function addTyped(event) {
  event.preventDefault();
  const conditions = event.target.where.value.split(";").map((text) => text.trim()).filter(Boolean);
  event.target.reset();
  if (conditions.length) changeSettings({ where: [...new Set([...state.settings.where, ...conditions])] });
}

function filterMenu({ facts, settings }) {
  const keys = Object.entries(facts.filters);
  return html`<button class="pill" type="button" id="add-filter" popovertarget="filter-menu">+ ${tr("Filter")}</button>
    <div class="choices filters" id="filter-menu" popover>
      ${keys.map((entry) => facet(entry, settings.where))}
      <form @submit=${addTyped}><input type="text" name="where" id="where" list="label-keys" placeholder=${tr("{key} >= 40", { key: facts.label_keys.includes("age") ? "age" : (facts.label_keys[0] ?? "key") })} aria-label=${tr("Only images with")} autocomplete="off" spellcheck="false" />
        <datalist id="label-keys">${facts.label_keys.map((key) => html`<option value=${`${key}=`}></option>`)}</datalist>
        <p class="hint">${tr("A condition with =, !=, >= or <=, then Enter.")}</p></form>
    </div>`;
}

const GROUPS = () => ({ patient: tr("One per patient"), study: tr("One per study"), series: tr("One per series"), [ALL_IMAGES]: tr("Every image") });

/** Whether patients are known among the results; true before there are some. */
const hasPatients = ({ answer }) => !answer?.results.length || answer.results.some(({ patient }) => patient);

function groupMenu(now) {
  const { facts, settings } = now;
  const groups = { ...GROUPS(), ...Object.fromEntries(Object.keys(facts.filters).map((key) => [`label:${key}`, tr("One per {label}", { label: key })])) };
  const choose = (group) => changeSettings({ group });
  return html`<button class="pill" type="button" id="group" popovertarget="group-menu">${settings.group === "patient" && !hasPatients(now) ? groups[ALL_IMAGES] : (groups[settings.group] ?? settings.group)} <span aria-hidden="true">▾</span></button>
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

/** The row above the results. */
export function chips(now) {
  const { answer, settings, facts } = now;
  const count = answer?.results.length ?? 0;
  return html`<div class="chips" id="chips">
    ${settings.where.map((condition) => activeChip(condition, facts))}
    ${filterMenu(now)}
    ${groupMenu(now)}
    ${callParts("options", now)}
    <span class="tally">${answer ? html`<span role="status" id="tally">${tr("{count} of {images}", { count, images: facts.images })}</span>` : nothing}${size(now)}</span>
  </div>`;
}
