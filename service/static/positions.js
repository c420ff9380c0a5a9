// Which of the frames, slices or examples of a query is shown.

import { tr } from "./translate.js";

/** {index, count, word}: of a query's slices, examples, or the `frames` of its file; null for a single image. */
export function positionOf(query, frames) {
  if (query.slices) return { index: query.slice, count: query.slices.length, word: tr("Slice") };
  if (query.files) return { index: query.files.indexOf(query.file), count: query.files.length, word: tr("Example") };
  if (query.file && frames > 1) return { index: (query.frame ?? 1) - 1, count: frames, word: tr("Frame") };
  return null;
}

/** What changes in a query when another position is shown; a region belongs to one picture. */
export function atPosition(query, index) {
  if (query.slices) return { file: query.slices[index], slice: index, region: null };
  if (query.files) return { file: query.files[index] };
  return { frame: index + 1, region: null };
}

/** The position `by` steps on, within 0 to count - 1. */
export function stepped({ index, count }, by) {
  return Math.min(Math.max(index + by, 0), count - 1);
}

/** The steps of a key, 0 for other keys. */
export function stepsOf(key, count) {
  const page = Math.max(1, Math.round(count / 10));
  return { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, PageUp: -page, PageDown: page, Home: -count, End: count }[key] ?? 0;
}
