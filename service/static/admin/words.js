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
