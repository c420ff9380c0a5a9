// Viewers that move together: their slices, windows and zoom.

import { windowInStep } from "./levels.js";
import { FITTED } from "./place.js";
import { linkOf, linkedIndex } from "./stacks.js";

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
export function linkedBy(viewer) {
  return othersOf(viewer, "slices").map((each) => linkOf(viewer, each)).filter(Boolean).sort().at(0) ?? null;
}

/** Link the viewers of a group at the slices that they show now. */
export function linkHere(viewer) {
  for (const each of new Set([viewer, ...(groups.get(viewer.linked) ?? [])])) {
    each.anchor = each.index;
    each.dispatch("link", { linkedBy: each.linkedBy });
  }
}

/** Call move(other, index) with the slice of each other viewer that belongs to that of this one. */
export function followSlice(viewer, move) {
  for (const other of othersOf(viewer, "slices")) move(other, linkedIndex(viewer, other));
}

/** Give the others the window that corresponds to that of a viewer. */
export function shareWindow(viewer) {
  for (const other of othersOf(viewer, "window")) {
    const shared = other.picture && viewer.picture ? windowInStep(viewer.window, viewer.picture, other.picture) : undefined;
    if (shared === undefined) continue;
    other.window = shared;
    other.strip.draw();
  }
}

/** Begin with the window and the zoom that the others have. */
export function takeOver(viewer) {
  const windowed = othersOf(viewer, "window").find(({ picture, window }) => picture?.unit === viewer.picture.unit && window);
  if (windowed && !viewer.window) viewer.window = windowInStep(windowed.window, windowed.picture, viewer.picture);
  const placed = othersOf(viewer, "zoom").find(({ picture, place }) => picture && place !== FITTED);
  if (placed) viewer.place = placed.place;
}
