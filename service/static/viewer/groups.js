// Viewers that move together: their slices, windows and zoom; steps in a stack of slices, and the slice of another one that belongs to it.

import { isScaled, windowInStep } from "./levels.js";
import { clamp, FITTED } from "./place.js";

/** The steps of a key, 0 for other keys. */
export function stepsOf(key, count) {
  const page = Math.max(1, Math.round(count / 10));
  return { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -count, End: count }[key] ?? 0;
}

export const indexWithin = (index, count) => clamp(index, 0, count - 1);

const AHEAD = [1, -1, 2, -2, 3, -3]; // steps from the slice that is shown

/** The slices that are loaded before they are shown; frames of one file are not, each of which would send it again. */
export function slicesAhead(slices, index) {
  const { file } = slices[index];
  return AHEAD.map((step) => slices[index + step]).filter((slice) => slice && !(file && slice.file === file));
}

/** How two stacks {slices, index, anchor} are linked: "mm" by positions, "fraction" by parts of their lengths, null for none. */
export function linkOf(from, to) {
  if (from.slices.length < 2 || to.slices.length < 2) return null;
  return [from, to].every(({ slices, anchor }) => slices.filter((slice) => isOf(slice, slices[anchor])).length > 1) ? "mm" : "fraction";
}

/** Whether a slice has a place along the same normal as another. */
const isOf = (slice, other) => Number.isFinite(slice.position_mm) && Number.isFinite(other.position_mm) && (slice.stack ?? 0) === (other.stack ?? 0);

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
    return indexWithin(Math.round(to.anchor + part * (to.slices.length - 1)), to.slices.length);
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

const groups = new Map(); // sets of viewers by name

export function join(viewer, name) {
  if (!name) return;
  if (!groups.has(name)) groups.set(name, new Set());
  groups.get(name).add(viewer);
}

export function leave(viewer, name) {
  groups.get(name)?.delete(viewer);
}

/** The others of a viewer's group with which it shares "slices", "window" or "zoom". */
export function othersOf(viewer, what) {
  const others = viewer.follows[what] ? [...(groups.get(viewer.linked) ?? [])] : [];
  return others.filter((each) => each !== viewer && each.follows[what]);
}

/** How the slices of a viewer are linked: "mm", "fraction" where one of the others has no positions, null without others. */
export const linkedBy = (viewer) => othersOf(viewer, "slices").map((each) => linkOf(viewer, each)).filter(Boolean).sort().at(0) ?? null;

/** Link a viewer's group where all stand; one beside a viewer that leads is linked at its own slice, and goes on to that of the leading one. */
export function linkHere(viewer) {
  const all = new Set([viewer, ...(groups.get(viewer.linked) ?? [])]);
  const leading = othersOf(viewer, "slices").find((each) => each.leads);
  for (const each of leading ? [viewer] : all) each.anchor = each.index;
  if (leading) viewer.index = linkedIndex(leading, viewer);
  for (const each of all) each.dispatch("link", { linkedBy: each.linkedBy });
}

/** Call move(other, index) with the slice of each other viewer that belongs to that of this one. */
export function followSlice(viewer, move) {
  for (const other of othersOf(viewer, "slices")) move(other, linkedIndex(viewer, other));
}

/** Give the others the window that corresponds to that of a viewer. */
export function shareWindow(viewer) {
  for (const other of othersOf(viewer, "window")) {
    const shared = other.picture && viewer.picture ? windowInStep(viewer.window, viewer.picture, other.picture) : undefined;
    if (shared !== undefined) other.window = shared;
  }
}

/** The window of a viewer until the user chooses one: that of the first picture of its group, if their values have one scale. */
export function firstWindow(viewer) {
  const others = othersOf(viewer, "window");
  const group = [...(groups.get(viewer.linked) ?? [viewer])].filter((each) => each === viewer || others.includes(each));
  return isScaled(viewer.picture) ? (group.find((each) => each.firstWindow)?.firstWindow ?? null) : null;
}

/** Begin with the window, the zoom and the tool that the others have. */
export function takeOver(viewer) {
  const windowed = othersOf(viewer, "window").find(({ picture, window }) => picture?.unit === viewer.picture.unit && window);
  if (windowed && !viewer.window) viewer.window = windowInStep(windowed.window, windowed.picture, viewer.picture);
  viewer.place = othersOf(viewer, "zoom").find(({ picture, place }) => picture && place !== FITTED)?.place ?? viewer.place;
  viewer.tool = othersOf(viewer, "zoom")[0]?.tool ?? viewer.tool;
}
