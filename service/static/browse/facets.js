// The labels at the left: values with their numbers of images to choose from, and limits of numbers.

import { number, tr } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import * as conditions from "./conditions.js";
import { change, openFacet } from "./listing.js";

const MORE = 100; // with "More values"

function range(key, { minimum, maximum, values }, where) {
  const limits = conditions.rangeOf(where, key);
  if ((minimum === null || values < 3) && !limits.minimum && !limits.maximum) return nothing;
  const take = (name, { validity, value }) => validity.valid && change({ where: conditions.withRange(where, key, { ...limits, [name]: value }) });
  const field = (name, label, bound) => html`<input type="number" step="any" .value=${limits[name]} placeholder=${bound ?? ""} aria-label=${label} @change=${({ target }) => take(name, target)} />`;
  return html`<div class="range">${field("minimum", tr("Least {key}", { key }), minimum)}<span>${tr("to")}</span>${field("maximum", tr("Greatest {key}", { key }), maximum)}</div>`;
}

function choices(key, answer, where) {
  const chosen = conditions.valuesOf(where, key);
  const missing = chosen.filter((value) => !answer.items.some((item) => item.value === value));
  const row = ({ value, images }) => html`<label><input type="checkbox" .checked=${chosen.includes(value)} @change=${() => change({ where: conditions.toggle(where, `${key}=${value}`) })} /><span class="value">${value}</span><span class="count">${images === undefined ? "" : number(images)}</span></label>`;
  return html`${range(key, answer, where)}
    ${repeat([...missing.map((value) => ({ value })), ...answer.items], ({ value }) => value, row)}
    ${answer.values > answer.items.length ? html`<button class="link" type="button" @click=${() => openFacet(key, true, answer.items.length + MORE)}>${tr("More of {count} values", { count: answer.values })}</button>` : nothing}`;
}

/** A part for each label key of the collection. */
export function facets({ keys, opened, values, where }) {
  const part = ({ key, values: count }) => html`<details class="facet" data-key=${key} .open=${opened.has(key)} @toggle=${({ target }) => target.open !== opened.has(key) && openFacet(key, target.open)}>
    <summary>${key}<span class="count">${number(count)}</span></summary>
    <div class="values" role="group" aria-label=${key}>${opened.has(key) && values.has(key) ? choices(key, values.get(key), where) : nothing}</div></details>`;
  return html`<div id="facets">${repeat(keys?.items ?? [], ({ key }) => key, part)}</div>`;
}
