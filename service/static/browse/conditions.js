// What Browse shows, as conditions on labels, an order and a view; and its address.

import { withFields } from "../api.js";

const FORM = /^([^=!<>]+?)\s*(>=|<=|!=|=|>|<)\s*(.*)$/s;
const PRESENCE = /^(!?)\s*([^=!<>]+?)\s*\?$/s;
const OWN = ["collection", "lang", "where", "sort", "view", "study", "series", "chosen"];

/** Split a condition into {key, operator, value}; null for what is none. */
export function parse(condition) {
  const [, absent, name] = PRESENCE.exec(condition) ?? [];
  if (name !== undefined) return { key: name, operator: `${absent}?`, value: "" };
  const [, key, operator, value] = FORM.exec(condition) ?? [];
  return key === undefined ? null : { key, operator, value: value.trim() };
}

const isLimit = (condition, key) => condition?.key === key && [">=", "<="].includes(condition.operator);

/** The chosen values of a key, any of which fits. */
export const valuesOf = (where, key) => where.map(parse).filter((each) => each?.key === key && each.operator === "=").map(({ value }) => value);

/** The limits {minimum, maximum} of a key as text; "" for none. */
export function rangeOf(where, key) {
  const limit = (operator) => where.map(parse).find((each) => each?.key === key && each.operator === operator)?.value ?? "";
  return { minimum: limit(">="), maximum: limit("<=") };
}

/** The conditions without or with another one. */
export const toggle = (where, condition) => (where.includes(condition) ? where.filter((each) => each !== condition) : [...where, condition]);

/** The conditions with other limits of a key; "" for none. */
export function withRange(where, key, { minimum, maximum }) {
  const others = where.filter((each) => !isLimit(parse(each), key));
  return [...others, ...(minimum === "" ? [] : [`${key}>=${minimum}`]), ...(maximum === "" ? [] : [`${key}<=${maximum}`])];
}

/** The conditions that the counts of a key's values follow: all but the choice of values, and limits, of the key itself. */
export function conditionsBeside(where, key) {
  return where.filter((each) => {
    const condition = parse(each);
    return !(condition?.key === key && condition.operator === "=") && !isLimit(condition, key);
  });
}

/** Read the state from the text of an address. views: names of those that the page has; `others` are the parameters of features. */
export function read(search, views = {}) {
  const query = new URLSearchParams(search);
  const view = query.get("view");
  return {
    where: query.getAll("where").filter(Boolean),
    sort: query.get("sort") || "newest",
    view: Object.hasOwn(views, view) ? view : "images",
    study: query.get("study") ?? "",
    series: query.get("series") ?? "",
    others: Object.fromEntries([...query].filter(([name]) => !OWN.includes(name))),
  };
}

export function write({ where, sort, view, study, series, others }, collection) {
  const unusual = { sort: sort === "newest" ? "" : sort, view: view === "images" ? "" : view };
  return withFields("", { collection, where, ...unusual, study, series, ...others }) || "/browse";
}
