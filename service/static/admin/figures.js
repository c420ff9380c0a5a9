// What the service reports, in the form that people read; without the document.

import { language, number } from "../translate.js";

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
const SPANS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 0]];

/** A size in bytes, in the largest unit that makes it at least 1. */
export function size(bytes) {
  let power = 0;
  while (power < UNITS.length - 1 && bytes / 1000 ** power >= 1000) power += 1;
  const value = bytes / 1000 ** power;
  return number(value, { style: "unit", unit: UNITS[power], maximumFractionDigits: value < 10 ? 1 : 0 });
}

/** A time span in seconds, in the largest whole unit. */
export function duration(seconds) {
  const [unit, length] = SPANS.find(([, least]) => seconds >= least);
  return number(Math.floor(seconds / (length || 1)), { style: "unit", unit, unitDisplay: "long" });
}

/** A point in time, or `absent` for null. */
export const time = (iso, absent = "–") => (iso ? new Date(iso).toLocaleString(language, { dateStyle: "short", timeStyle: "short" }) : absent);

/** A name of the service as the beginning of a line. */
export const capitalised = (name) => name[0].toUpperCase() + name.slice(1);

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

/** Whether a job has not ended. */
export const isActive = ({ state }) => state === "waiting" || state === "running";
