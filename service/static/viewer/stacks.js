// Stacks of slices: steps in one, and the slice of another that belongs to it. Without the document.

import { clamp } from "./place.js";

/** The steps of a key, 0 for other keys. */
export function stepsOf(key, count) {
  const page = Math.max(1, Math.round(count / 10));
  return { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -count, End: count }[key] ?? 0;
}

/** The index in a list of `count` that is nearest to one. */
export const within = (index, count) => clamp(index, 0, count - 1);

const AHEAD = [1, -1, 2, -2, 3, -3]; // steps from the slice that is shown

/** The slices that are loaded before they are shown; frames of one file are not, each of which would send it again. */
export function slicesAhead(slices, index) {
  const { file } = slices[index];
  return AHEAD.map((step) => slices[index + step]).filter((slice) => slice && !(file && slice.file === file));
}

/** True for a number, which a place may be without. */
const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

/** How two stacks {slices, index, anchor} are linked: "mm" by positions, "fraction" by parts of their lengths, null for none. */
export function linkOf(from, to) {
  if (from.slices.length < 2 || to.slices.length < 2) return null;
  return [from, to].every(({ slices, anchor }) => slices.filter((slice) => isOf(slice, slices[anchor])).length > 1) ? "mm" : "fraction";
}

/** Whether a slice has a place along the same normal as another. */
function isOf(slice, other) {
  return isKnown(slice.position_mm) && isKnown(other.position_mm) && (slice.stack ?? 0) === (other.stack ?? 0);
}

/**
 * The index of `to` that belongs to that of `from`: as far from its anchor, the slice that both were linked at. Other patients
 * lie elsewhere in their scanners, so that distances count and not places.
 */
export function linkedIndex(from, to) {
  const link = linkOf(from, to);
  if (!link) return to.index;
  const [here, start] = [from.slices[from.index], from.slices[from.anchor]];
  const own = to.slices[to.anchor];
  if (link === "fraction" || !isOf(here, start)) {
    const part = (from.index - from.anchor) / (from.slices.length - 1);
    return within(Math.round(to.anchor + part * (to.slices.length - 1)), to.slices.length);
  }
  const position = own.position_mm + here.position_mm - start.position_mm;
  const distance = (index) => (isOf(to.slices[index], own) ? Math.abs(to.slices[index].position_mm - position) : Infinity);
  let nearest = to.anchor;
  for (let index = 0; index < to.slices.length; index++) {
    const [apart, least] = [distance(index), distance(nearest)];
    if (apart < least || (apart === least && Math.abs(index - to.index) < Math.abs(nearest - to.index))) nearest = index;
  }
  return nearest;
}
