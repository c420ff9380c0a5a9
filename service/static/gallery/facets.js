// The labels at the left: values with their numbers of images to choose from, and limits of numbers.

import { byId, element } from "../dom.js";
import { number, tr } from "../translate.js";
import * as filters from "./filter_state.js";
import { labelKeys, labelValues } from "./requests.js";

const OPEN = 4; // labels with few values that are open at first
const FEW = 30; // values of such a label
const FIRST = 12; // values shown of a label
const MORE = 100; // with "More values"
const opened = new Map(); // by key, what the user has opened or closed
const limits = new Map(); // by key, number of values shown

/** A part for each label key of the collection, and what it holds for the conditions; change(where) sets others. */
export class Facets {
  #keys = null;

  constructor(change) {
    this.change = change;
  }

  /** Show the labels for the conditions. */
  async show(where, signal) {
    this.where = where;
    this.signal = signal;
    if (!this.#keys) {
      this.#keys = (await labelKeys([], signal)).items;
      this.#build();
    }
    await Promise.all(this.#keys.map(({ key }) => this.#fill(key)));
  }

  /** Forget the keys, since labels have changed. */
  forget() {
    this.#keys = null;
  }

  /** The keys of the collection. */
  get keys() {
    return (this.#keys ?? []).map(({ key }) => key);
  }

  #build() {
    const few = this.#keys.filter(({ values, images }) => values > 1 && values <= FEW && values < images);
    const first = new Set(few.slice(0, OPEN).map(({ key }) => key));
    const parts = this.#keys.map(({ key, values }) => {
      const summary = element("summary", "", key, element("span", "count", String(values)));
      const group = element("div", "values");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", key);
      const part = element("details", "facet", summary, group);
      part.dataset.key = key;
      const atFirst = (part.open = opened.get(key) ?? first.has(key));
      part.addEventListener("toggle", () => {
        if (part.open === (opened.get(key) ?? atFirst)) return; // not by the user
        opened.set(key, part.open);
        this.#fill(key).catch(() => {});
      });
      return part;
    });
    byId("facets").replaceChildren(...parts);
  }

  async #fill(key) {
    const part = [...byId("facets").children].find(({ dataset }) => dataset.key === key);
    if (!part?.open) return;
    const { where, signal } = this;
    const limit = limits.get(key) ?? FIRST;
    const answer = await labelValues(key, filters.conditionsBeside(where, key), limit, signal);
    if (signal.aborted) return;
    const focused = part.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    part.querySelector(".values").replaceChildren(...this.#range(key, answer), ...this.#values(key, answer));
    if (focused) [...part.querySelectorAll("[data-name]")].find(({ dataset }) => dataset.name === focused)?.focus();
  }

  #values(key, { items, values }) {
    const chosen = filters.valuesOf(this.where, key);
    const missing = chosen.filter((value) => !items.some((item) => item.value === value));
    const rows = [...missing.map((value) => ({ value, images: null })), ...items].map(({ value, images }) => {
      const box = element("input");
      box.type = "checkbox";
      box.checked = chosen.includes(value);
      box.dataset.name = value;
      box.addEventListener("change", () => this.change(filters.toggleValue(this.where, key, value)));
      const count = element("span", "count", images === null ? "" : number(images));
      return element("label", "", box, element("span", "value", value), count);
    });
    if (values <= items.length) return rows;
    const more = element("button", "link", tr("More of {count} values", { count: values }));
    more.type = "button";
    more.dataset.name = "\0more";
    more.addEventListener("click", () => {
      limits.set(key, items.length + MORE);
      this.#fill(key).catch(() => {});
    });
    return [...rows, more];
  }

  #range(key, { minimum, maximum, values }) {
    const range = filters.rangeOf(this.where, key);
    if ((minimum === null || values < 3) && !range.minimum && !range.maximum) return [];
    const field = (name, label, value) => {
      const input = element("input");
      input.type = "number";
      input.step = "any";
      input.value = range[name];
      input.placeholder = value === null ? "" : String(value);
      input.dataset.name = `\0${name}`;
      input.setAttribute("aria-label", label);
      input.addEventListener("change", () => {
        if (input.validity.valid) this.change(filters.withRange(this.where, key, { ...range, [name]: input.value }));
      });
      return input;
    };
    const to = element("span", "", tr("to"));
    return [element("div", "range", field("minimum", tr("Least {key}", { key }), minimum), to, field("maximum", tr("Greatest {key}", { key }), maximum))];
  }
}
