// Browse: all images of a collection, to filter, look at, select, label, delete and export. Features add to it what stands beside the grid.

import "../shell.js";
import { problemBox } from "../list_page.js";
import { callParts, state, subscribe, update } from "../page_state.js";
import { number, tr, trn } from "../translate.js";
import { html, nothing, render, repeat } from "../vendor/lit.js";
import * as conditions from "./conditions.js";
import { read, toggle } from "./conditions.js";
import { cards, measure, tiles } from "./grid.js";
import { largeView } from "./large_view.js";
import { attempt, change, emptyList, MAX_SET, more, moreCards, openFacet, readAddress, saveAllRecords, saveTable, show } from "./listing.js";
import { selectionBar } from "./selection_bar.js";

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

function facets({ keys, opened, values, where }) {
  const part = ({ key, values: count }) => html`<details class="facet" data-key=${key} .open=${opened.has(key)} @toggle=${({ target }) => target.open !== opened.has(key) && openFacet(key, target.open)}>
    <summary>${key}<span class="count">${number(count)}</span></summary>
    <div class="values" role="group" aria-label=${key}>${opened.has(key) && values.has(key) ? choices(key, values.get(key), where) : nothing}</div></details>`;
  return html`<div id="facets">${repeat(keys?.items ?? [], ({ key }) => key, part)}</div>`;
}

const page = document.getElementById("browse");
const views = JSON.parse(page.dataset.views ?? "{}"); // names by view, none without series

Object.assign(state, {
  facts: { ...JSON.parse(page.dataset.facts), views }, // what the service says of the collection
  ...read(location.search, views), // where, sort, view, study, series, and others: those of features
  ...emptyList(), // pages and what is selected of them, or cards; what is open
  keys: null, // all labels of the collection
  opened: null, // set of keys whose values are shown
  values: new Map(), // by key
  limits: new Map(), // number of values that are shown, by key
  done: "",
});

function viewSwitch({ view }) {
  if (!views.images) return nothing;
  const choose = (name) => change({ view: name, study: "", series: "", others: { ...state.others, area: "" } });
  return html`<fieldset class="switch" id="views"><legend class="unseen">${tr("Show")}</legend>${Object.entries(views).map(([name, title]) => html`<label><input type="radio" name="view" value=${name} .checked=${name === view} @change=${() => choose(name)} /><span>${title}</span></label>`)}</fieldset>`;
}

function sorting({ sort, keys }) {
  const option = (value, title) => html`<option value=${value} .selected=${value === sort}>${title}</option>`;
  return html`<select id="sort" aria-label=${tr("Sort")} autocomplete="off" @change=${({ target }) => change({ sort: target.value })}>
    ${option("newest", tr("Newest first"))}${option("oldest", tr("Oldest first"))}
    <optgroup label=${tr("By a label")}>${(keys?.items ?? []).map(({ key }) => html`${option(`label:${key}`, tr("{key}, ascending", { key }))}${option(`-label:${key}`, tr("{key}, descending", { key }))}`)}</optgroup></select>`;
}

const exportTable = async ({ where, sort, ids } = state) => saveTable((await ids) ? { ids: await ids } : { where, sort });

const exportRecords = () => saveAllRecords(state.page, (number) => update({ done: trn("{count} image read for the export.", "{count} images read for the export.", number) }));

function selectAll() {
  state.selection.add(state.pages.ids);
  update({});
  document.getElementById("grid").focus();
}

function imageTools(now) {
  const { total, others } = now;
  const isOver = others.area && total > MAX_SET;
  return html`${sorting(now)}
    <button class="pill" type="button" popovertarget="all-menu" aria-label=${tr("All that match")}>•••</button>
    <div class="choices" id="all-menu" popover role="group" aria-label=${tr("All that match")}>
      <button type="button" id="select-all" title="Ctrl A" @click=${selectAll}>${tr("Select all loaded")}</button>
      <button type="button" ?disabled=${!total || isOver} title=${isOver ? tr("At most {count} images", { count: MAX_SET }) : ""} @click=${() => attempt(exportTable)}>${tr("Export csv")}</button>
      <button type="button" ?disabled=${!total} @click=${() => attempt(exportRecords)}>${tr("Export JSON")}</button></div>`;
}

/** After a chip was taken away, the focus is on another one, or on the images. */
async function refocus({ target }) {
  if (!target.closest("button")) return;
  await Promise.resolve(); // drawn now
  (document.querySelector("#chips .pill") ?? document.querySelector("#grid, #cards")).focus();
}

function chips({ where, ...now }) {
  const added = callParts("chips", now).filter((chip) => chip !== nothing);
  if (!where.length && !added.length) return nothing;
  return html`<ul class="chips" id="chips" role="list" aria-label=${tr("Filters in use")} @click=${refocus}>${where.map((condition) => html`<li><button class="pill on" type="button" aria-label=${tr("Remove the filter {condition}", { condition })} @click=${() => change({ where: toggle(where, condition) })}>${condition} ×</button></li>`)}${added.map((chip) => html`<li>${chip}</li>`)}</ul>`;
}

function rest({ pages, cards: listed, view, busy, where, others }) {
  const [left, load] = view === "images" ? [!pages.done, more] : [Boolean(listed?.next), moreCards];
  const { items } = view === "images" ? pages : (listed ?? {}); // none before the first answer, or after an error
  const isEmpty = !busy && !left && items?.length === 0;
  if (isEmpty) {
    const isFiltered = where.length || others.area;
    return html`<section class="state" id="none"><h2>${tr("No images")}</h2>${isFiltered ? html`<button class="button" type="button" id="unfilter" @click=${() => change({ where: [], others: { ...others, area: "" } })}>${tr("Remove all filters")}</button>` : nothing}</section>`;
  }
  return html`<p class="further" ?hidden=${busy || !left}><button class="button" type="button" id="load-more" @click=${() => attempt(load)}>${tr("Load more")}</button> ${view === "images" ? tr("{count} loaded", { count: pages.items.length }) : ""}</p>`;
}

function draw(now) {
  const { total, view, done } = now;
  const ofImages = view === "images";
  const skip = (event) => {
    event.preventDefault(); // another address would load the images again
    document.getElementById(ofImages ? "grid" : "cards").focus();
  };
  render(html`<a class="skip" id="skip" href="#grid" @click=${skip}>${tr("Skip to the images")}</a>
    <aside class="facet-column" aria-label=${tr("Filters")}><details class="filters" ?open=${!isNarrow}><summary>${tr("Filters")}</summary>${facets(now)}</details></aside>
    ${callParts("beside", now)}
    <div class="stock">
      <div class="bar"><p class="total" id="total" role="status">${total === null ? "…" : trn("{count} image", "{count} images", total)}</p>
        ${viewSwitch(now)}${ofImages ? imageTools(now) : nothing}${callParts("tools", now)}</div>
      ${chips(now)}
      <p class="unseen" id="done" role="status">${done}</p>
      ${problemBox(now)}
      ${ofImages ? tiles(now) : cards(now)}
      ${rest(now)}
      ${selectionBar(now)}
    </div>
    ${largeView(now)}`, page);
  showLarge(now);
  measure();
}

function showLarge({ large }) {
  const dialog = document.getElementById("large");
  if (dialog.open === Boolean(large)) return;
  if (!large) return dialog.close();
  dialog.showModal();
  dialog.querySelector("cbir-viewer").stage.focus();
}

let scheduled = 0;

function lookAgain() {
  cancelAnimationFrame(scheduled);
  scheduled = requestAnimationFrame(measure);
}

const isNarrow = matchMedia("(max-width: 900px)").matches; // filters are above the images there
subscribe(draw);
addEventListener("scroll", lookAgain, { passive: true });
addEventListener("popstate", readAddress);
callParts("install");
draw(state);
new ResizeObserver(lookAgain).observe(page.querySelector(".stock"));
show().finally(() => performance.mark("ready"));
