// The slices of a series or the frames of a file at either side of the comparison.

import { imagesOf, picture, record, render } from "./api.js";
import { byId } from "./dom.js";
import { atPosition, positionOf, stepped, stepsOf } from "./positions.js";
import { state } from "./search_state.js";
import { tr } from "./translate.js";

const WHEEL_STEP = 60; // pixels of scrolling for one slice

const stacks = { left: null, right: null }; // {items, index} of a side with several slices
let onSlice = null;
let scrolled = 0;

/** Connect the controls; show(side, item) shows another slice. */
export function install(show) {
  onSlice = show;
  for (const side of Object.keys(stacks)) {
    byId(`${side}-slice`).addEventListener("input", () => go(side, Number(byId(`${side}-slice`).value) - 1));
  }
}

/** The side of an event over a pane that has slices; undefined for none. */
export function sideOf(event) {
  const side = event.target.closest(".pane")?.querySelector("img").id;
  return stacks[side] ? side : undefined;
}

/** Go to the next slice by the wheel over a pane; one a notch. */
export function turn(event) {
  const side = sideOf(event);
  if (!side || event.ctrlKey) return;
  event.preventDefault();
  scrolled += event.deltaMode ? event.deltaY * 16 : event.deltaY;
  if (Math.abs(scrolled) < WHEEL_STEP) return;
  const step = Math.sign(scrolled);
  scrolled = 0;
  go(side, stepped(position(side), step));
}

/** Go through the slices of the result, or of the query where only it has some; returns whether the key was one. */
export function key(event) {
  const side = stacks.right ? "right" : stacks.left ? "left" : null;
  const steps = side && !["ArrowLeft", "ArrowRight"].includes(event.key) ? stepsOf(event.key, stacks[side].items.length) : 0;
  if (steps) go(side, stepped(position(side), steps));
  return Boolean(steps);
}

const position = (side) => ({ index: stacks[side].index, count: stacks[side].items.length });

function go(side, index) {
  if (index === stacks[side].index) return;
  stacks[side].index = index;
  draw(side);
  onSlice(side, stacks[side].items[index]);
}

/** Set the slices of a side, of which one is shown already; null, or a single one, for none. */
function set(side, items, index = 0) {
  stacks[side] = items?.length > 1 ? { items, index } : null;
  draw(side);
}

function draw(side) {
  const stack = stacks[side];
  const slider = byId(`${side}-slice`);
  slider.parentElement.hidden = !stack;
  if (!stack) return;
  slider.max = stack.items.length;
  slider.value = stack.index + 1;
  byId(`${side}-count`).textContent = tr("{number} of {count}", { number: stack.index + 1, count: stack.items.length });
}

/** Set the slices of a side to those of the series of an image of the collection; isCurrent() tells whether it is still shown. */
async function loadSeries(side, image, isCurrent) {
  const { study, series } = await record(image);
  const items = series ? await imagesOf({ study, series }) : [];
  if (isCurrent()) set(side, items, items.findIndex(({ image_id }) => image_id === image));
}

/** Offer the slices of the result's series. */
export function showResult(image, isCurrent) {
  set("right", null);
  loadSeries("right", image, isCurrent).catch(() => {}); // without them it is one picture
}

/** Offer the slices or frames of the query; frames: of its file. */
export function showQuery(query, frames) {
  set("left", null);
  if (query.image) loadSeries("left", query.image, () => state.query === query).catch(() => {});
  else {
    const position = positionOf(query, frames);
    if (position && !query.files) set("left", indices(position.count).map((index) => ({ ...query, ...atPosition(query, index) })), position.index);
  }
}

const indices = (count) => Array.from({ length: count }, (_, index) => index);

/** Load the picture of a slice in a window, null for its own. */
export function loadSlice(item, window) {
  return item.image_id ? picture(item.image_id, { window }) : render({ ...item, window: window ?? item.window });
}
