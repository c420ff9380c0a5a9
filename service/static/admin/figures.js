// Figures of the service in the form that people read; without the document.

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

/** The size in the largest unit that makes it at least 1: {value, unit}, the unit as of Intl.NumberFormat. */
export function sizeOf(bytes) {
  let power = 0;
  while (power < UNITS.length - 1 && bytes / 1000 ** power >= 1000) power += 1;
  return { value: bytes / 1000 ** power, unit: UNITS[power] };
}

/** Seconds in the largest whole unit: {value, unit}, the unit as of Intl.NumberFormat. */
export function durationOf(seconds) {
  const steps = [["day", 86_400], ["hour", 3600], ["minute", 60]];
  const [unit, length] = steps.find(([, length]) => seconds >= length) ?? ["second", 1];
  return { value: Math.floor(seconds / length), unit };
}

/** The tokens that a token has made, those that they have made, and so on, from a list with the newest first. */
export function madeBy(tokens, id) {
  const makers = new Set([`token ${id}`]);
  return [...tokens].reverse().filter(({ token_id, made_by }) => makers.has(made_by) && makers.add(`token ${token_id}`));
}

/**
 * Requests [{day, action, method, outcome, count}] as a table {columns, rows}: a row {day, counts} for each day, newest
 * first, and a column {action, method, outcome} for what was done, the most frequent first; refused and failed ones,
 * with an empty action, are last.
 */
export function requestTable(items) {
  const columns = new Map();
  const days = new Map();
  for (const { day, action, method, outcome, count } of items) {
    const column = outcome === "done" ? { action, method, outcome } : { action: "", method: "", outcome };
    const key = JSON.stringify(column);
    const total = columns.get(key)?.total ?? 0;
    columns.set(key, { ...column, total: total + count });
    const counts = days.get(day) ?? new Map();
    days.set(day, counts.set(key, (counts.get(key) ?? 0) + count));
  }
  const ordered = [...columns].sort(([, a], [, b]) => (a.action === "") - (b.action === "") || b.total - a.total);
  const rows = [...days].sort(([a], [b]) => (a < b ? 1 : -1)).map(([day, counts]) => ({ day, counts: ordered.map(([key]) => counts.get(key) ?? 0) }));
  return { columns: ordered.map(([, { action, method, outcome }]) => ({ action, method, outcome })), rows };
}

/** Whether a job has not ended. */
export const isActive = ({ state }) => state === "waiting" || state === "running";

/** The body of a request for a token from what the form holds. */
export function tokenRequest({ name, scopes, expires, collections, where }) {
  const conditions = where.split(",").map((text) => text.trim()).filter(Boolean);
  return { scopes, name: name.trim(), expires: expires.trim() || null, collections, where: conditions };
}
