// Words of the page for what the service reports.

import { language, number, tr } from "../translate.js";
import { durationOf, sizeOf } from "./figures.js";

const JOB_STATES = {
  waiting: tr("Waiting"),
  running: tr("Running"),
  done: tr("Done"),
  cancelled: tr("Cancelled"),
  failed: tr("Failed"),
};

export const jobState = (state) => JOB_STATES[state] ?? state;

/** What a job does. */
export function jobTitle({ kind, collection }) {
  if (kind === "index") return tr("Indexing into {collection}", { collection });
  if (kind === "map") return tr("Map of {collection}", { collection });
  return `${kind}: ${collection}`;
}

const PARTS = {
  tokens: tr("Tokens"),
  "audit log": tr("Audit log"),
  "state database": tr("State database"),
  "hospital login": tr("Hospital login"),
};
const PART_STATES = { ok: tr("ok"), ready: tr("ready"), off: tr("off") };

/** The state of a part of the service. */
export const partState = (state) => PART_STATES[state] ?? state;

/** The name of a part of the service, and its state. */
export function partWords({ name, state }) {
  const collection = name.match(/^collection (.+)$/)?.[1];
  const title = collection ? tr("Collection {collection}", { collection }) : (PARTS[name] ?? name);
  return { title, text: partState(state) };
}

/** A size in bytes. */
export function size(bytes) {
  const { value, unit } = sizeOf(bytes);
  return number(value, { style: "unit", unit, maximumFractionDigits: value < 10 ? 1 : 0 });
}

/** A time span in seconds. */
export function duration(seconds) {
  const { value, unit } = durationOf(seconds);
  return number(value, { style: "unit", unit, unitDisplay: "long" });
}

/** A point in time, or `absent` for null. */
export function time(iso, absent = "–") {
  return iso ? new Date(iso).toLocaleString(language, { dateStyle: "short", timeStyle: "short" }) : absent;
}

/** Who made a token: another one, a user, or the command line. */
export function maker(name) {
  if (!name) return tr("command line");
  const [, kind, id] = name.match(/^(\S+) (.*)$/s);
  return kind === "token" ? tr("token {id}", { id }) : id;
}
