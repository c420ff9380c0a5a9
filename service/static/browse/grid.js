// The grid of images: tiles for what is in sight, selection by mouse and keys; and the cards of series and studies.

import { imageAddress } from "../api.js";
import { face, factsOf, tip } from "../card.js";
import { state, update } from "../page_state.js";
import { tr, trn } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { openItem } from "./large_view.js";
import { attempt, change, more } from "./listing.js";

/**
 * The tiles to show, from `first` to before `last`, and the height in pixels of the rows before and after them.
 * count: tiles of the list; top: pixels of the grid above the sight, negative if it begins below its upper edge;
 * height: of the sight; spare: rows beyond it at either end.
 */
export function visibleTiles({ count, columns, rowHeight, top, height, spare = 2 }) {
  const rows = Math.ceil(count / columns);
  const firstRow = Math.min(Math.max(0, Math.floor(top / rowHeight) - spare), Math.max(0, rows - 1));
  const lastRow = Math.min(rows, Math.max(firstRow, Math.ceil((top + height) / rowHeight) + spare));
  return { first: firstRow * columns, last: Math.min(count, lastRow * columns), before: firstRow * rowHeight, after: (rows - lastRow) * rowHeight };
}

/** The position that a key moves to; undefined for other keys. */
export function movedPosition(key, position, { count, columns, page }) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -page * columns, PageDown: page * columns };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (!(key in steps)) return undefined;
  const moved = position + steps[key];
  if (Math.abs(steps[key]) === columns && (moved < 0 || moved >= count)) return position;
  return Math.min(Math.max(moved, 0), count - 1);
}

const FALLBACK = { columns: 4, rowHeight: 220 }; // until a tile is drawn
const START = { first: 0, last: 24, before: 0, after: 0 };

const grid = () => document.getElementById("grid");

function layout() {
  const tile = grid().querySelector(".tile");
  if (!tile) return FALLBACK;
  const style = getComputedStyle(grid());
  return { columns: style.gridTemplateColumns.split(" ").length, rowHeight: tile.getBoundingClientRect().height + (parseFloat(style.rowGap) || 0) };
}

/** Find out which tiles are in sight after the page was drawn, scrolled or resized, and load the next ones near the end. */
export function measure() {
  const { pages, sight, view, busy } = state;
  if (view !== "images" || busy || !grid()) return;
  const shape = layout();
  const { top } = grid().getBoundingClientRect();
  const seen = visibleTiles({ count: pages.items.length, ...shape, top: -top, height: innerHeight });
  if (JSON.stringify(seen) !== JSON.stringify(sight)) update({ sight: seen });
  if (!pages.done && !pages.failed && seen.last > pages.items.length - 2 * shape.columns) attempt(more);
}

/** The value of the label that orders the images, before the usual facts. */
function factsIn(item, sort) {
  const key = sort.replace(/^-?label:/, "");
  return [...(key === sort ? [] : [`${key}: ${item.labels[key] ?? tr("none")}`]), ...factsOf(item)];
}

function tile(item, position, { pages, selection, active, sort }) {
  return html`<div class=${position === active ? "tile active" : "tile"} role="option" id="tile-${item.image_id}" data-image=${item.image_id} data-position=${position} title=${tip(item)}
    aria-selected=${String(selection.ids.has(item.image_id))} aria-posinset=${position + 1} aria-setsize=${pages.done ? pages.items.length : -1}>
    ${face(item, { over: html`<span class="tick" aria-hidden="true">✓</span>`, facts: factsIn(item, sort) })}</div>`;
}

export function tiles(now) {
  const { pages, active, busy, sight } = now;
  const { first, last, before, after } = sight ?? START;
  const shown = pages.items.slice(first, last);
  const isActive = active >= first && active < first + shown.length;
  return html`<div class="tiles" id="grid" role="listbox" aria-label=${tr("Images")} aria-multiselectable="true" tabindex="0" aria-busy=${busy ? "true" : nothing}
    aria-activedescendant=${isActive ? `tile-${pages.items[active].image_id}` : nothing} .style=${`padding-top: ${before}px; padding-bottom: ${after}px`} ?hidden=${!busy && !pages.items.length}
    @click=${click} @keydown=${key} @focus=${() => grid().matches(":focus-visible") && reveal()}>${repeat(shown, ({ image_id }) => image_id, (item, index) => tile(item, first + index, now))}</div>`;
}

function click(event) {
  const position = Number(event.target.closest(".tile")?.dataset.position ?? -1);
  if (position < 0) return;
  const { pages, selection } = state;
  grid().focus({ preventScroll: true });
  if (event.shiftKey) selection.extend(pages.ids, position);
  else if (event.target.closest(".tick") || event.ctrlKey || event.metaKey) selection.toggle(pages.ids, position);
  else {
    selection.anchor = position;
    openItem(pages.items[position]);
  }
  update({ active: position });
}

function key(event) {
  const { pages, selection, active } = state;
  const { columns, rowHeight } = layout();
  const page = Math.max(1, Math.floor(innerHeight / rowHeight) - 1);
  const isControl = event.ctrlKey || event.metaKey;
  const moved = isControl || event.altKey || !pages.items.length ? undefined : movedPosition(event.key, active, { count: pages.items.length, columns, page });
  if (event.key === " ") selection.toggle(pages.ids, active);
  else if (event.key.toLowerCase() === "a" && isControl) selection.add(pages.ids);
  else if (event.key === "Enter" && pages.items[active]) openItem(pages.items[active]);
  else if (moved === undefined) return;
  else if (event.shiftKey) {
    selection.anchor ??= active;
    selection.extend(pages.ids, moved);
  } else selection.anchor = moved;
  event.preventDefault();
  update({ active: moved ?? active });
  reveal();
}

function reveal() {
  const { columns, rowHeight } = layout();
  const top = grid().getBoundingClientRect().top + Math.floor(state.active / columns) * rowHeight;
  const above = document.querySelector("header.top").offsetHeight;
  const below = document.getElementById("selection")?.offsetHeight ?? 0;
  if (top < above) scrollBy(0, top - above - 8);
  else if (top + rowHeight > innerHeight - below) scrollBy(0, top + rowHeight - innerHeight + below + 8);
}

/** A series or study as an image, of which it has the labels. */
const hitOf = ({ image_id, labels }) => ({ image_id, labels, card: { finding: labels.label, ...labels }, links: { thumbnail: imageAddress(state.facts.collection, image_id, "/thumbnail") } });

export function cards({ cards: listed, view, busy, facts }) {
  const card = (item) => html`<li><button class="tile" type="button" data-study=${item.study} data-series=${view === "series" ? item.series : ""} @click=${({ currentTarget }) => change({ ...currentTarget.dataset })}>
    ${face(hitOf(item), { facts: [item.labels.series_description, trn("{count} slice", "{count} slices", item.images)].filter(Boolean) })}</button></li>`;
  return html`<ul class="tiles" id="cards" role="list" tabindex="-1" aria-label=${facts.views[view]} aria-busy=${busy ? "true" : nothing}>${(listed?.items ?? []).map(card)}</ul>`;
}
