// What the gallery shows, as conditions on labels, an order and a view; and its address. Without the document.

const FORM = /^([^=!<>]+?)\s*(>=|<=|!=|=|>|<)\s*(.*)$/s;
export const VIEWS = ["images", "series", "study"];

/** Split a condition into {key, operator, value}; null for the forms without a value. */
export function parse(condition) {
  const [, key, operator, value] = FORM.exec(condition) ?? [];
  return key === undefined ? null : { key, operator, value };
}

/** The chosen values of a key, any of which fits. */
export function valuesOf(where, key) {
  return where.map(parse).filter((each) => each?.key === key && each.operator === "=").map(({ value }) => value);
}

/** The limits {minimum, maximum} of a key as text; "" for none. */
export function rangeOf(where, key) {
  const limit = (operator) => where.map(parse).find((each) => each?.key === key && each.operator === operator)?.value ?? "";
  return { minimum: limit(">="), maximum: limit("<=") };
}

/** The conditions without or with a value of a key. */
export function toggleValue(where, key, value) {
  const condition = `${key}=${value}`;
  return where.includes(condition) ? where.filter((each) => each !== condition) : [...where, condition];
}

/** The conditions with other limits of a key; "" for none. */
export function withRange(where, key, { minimum, maximum }) {
  const others = where.filter((each) => !isLimit(parse(each), key));
  return [...others, ...(minimum === "" ? [] : [`${key}>=${minimum}`]), ...(maximum === "" ? [] : [`${key}<=${maximum}`])];
}

function isLimit(condition, key) {
  return condition?.key === key && (condition.operator === ">=" || condition.operator === "<=");
}

/** The conditions that the counts of a key's values follow: all but the choice of values, and limits, of the key itself. */
export function conditionsBeside(where, key) {
  return where.filter((each) => {
    const condition = parse(each);
    return !(condition?.key === key && condition.operator === "=") && !isLimit(condition, key);
  });
}

/** Read the state from the text of an address; what is unknown is left out. */
export function read(search) {
  const query = new URLSearchParams(search);
  const view = query.get("view");
  return {
    where: query.getAll("where").filter(Boolean),
    sort: query.get("sort") || "newest",
    view: VIEWS.includes(view) ? view : "images",
    study: query.get("study") ?? "",
    series: query.get("series") ?? "",
  };
}

/** Build the address of a state, relative to the page. */
export function write({ where, sort, view, study, series }, collection) {
  const query = new URLSearchParams();
  if (collection) query.set("collection", collection);
  for (const condition of where) query.append("where", condition);
  if (sort !== "newest") query.set("sort", sort);
  if (view !== "images") query.set("view", view);
  if (study) query.set("study", study);
  if (series) query.set("series", series);
  const text = query.toString();
  return text ? `?${text}` : "/gallery";
}
