// The grid of images: tiles for what is in sight, selection by mouse and keys.

import { byId, element, replaceIfMissing } from "../dom.js";
import { movedPosition, visibleTiles } from "./grid_window.js";
import { pictureAddress } from "./requests.js";
import { wordsOf } from "./tile_words.js";

const FALLBACK = { columns: 5, rowHeight: 240 }; // until a tile is drawn
const grid = byId("grid");

export class Tiles {
  #shown = new Map(); // tiles in the document by image id
  #active = 0; // position that the keys act on
  #scheduled = false;

  /** state(): {pages, selection, sort}; onSelect(): the selection has changed; needMore(): the end comes near; onOpen(item): to be shown large. */
  constructor(state, { onSelect, needMore, onOpen }) {
    Object.assign(this, { state, onSelect, needMore, onOpen });
    grid.addEventListener("click", (event) => this.#click(event));
    grid.addEventListener("keydown", (event) => this.#key(event));
    grid.addEventListener("focus", () => {
      if (grid.matches(":focus-visible")) this.#reveal(); // by the keyboard
      this.draw();
    });
    addEventListener("scroll", () => this.#schedule(), { passive: true });
    new ResizeObserver(() => this.#schedule()).observe(grid);
  }

  /** Begin at the first image again. */
  reset() {
    this.#active = 0;
    for (const tile of this.#shown.values()) tile.remove();
    this.#shown.clear();
    this.draw();
  }

  #schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.draw();
    });
  }

  #layout() {
    const tile = grid.querySelector(".tile");
    if (!tile) return FALLBACK;
    const style = getComputedStyle(grid);
    return {
      columns: style.gridTemplateColumns.split(" ").length,
      rowHeight: tile.getBoundingClientRect().height + (parseFloat(style.rowGap) || 0),
    };
  }

  /** Draw the tiles in sight. */
  draw() {
    const { items, done } = this.state().pages;
    const layout = this.#layout();
    const box = grid.getBoundingClientRect();
    const sight = visibleTiles({ count: items.length, ...layout, top: -box.top, height: innerHeight });
    grid.style.paddingTop = `${sight.before}px`;
    grid.style.paddingBottom = `${sight.after}px`;
    const wanted = items.slice(sight.first, sight.last);
    const ids = new Set(wanted.map(({ image_id }) => image_id));
    for (const [id, tile] of this.#shown) {
      if (ids.has(id)) continue;
      tile.remove();
      this.#shown.delete(id);
    }
    let previous = null;
    wanted.forEach((item, index) => {
      const tile = this.#shown.get(item.image_id) ?? this.#make(item);
      if (previous ? previous.nextSibling !== tile : grid.firstChild !== tile) grid.insertBefore(tile, previous ? previous.nextSibling : grid.firstChild);
      this.#mark(tile, sight.first + index, item.image_id);
      previous = tile;
    });
    const active = this.#shown.get(items[this.#active]?.image_id);
    if (active) grid.setAttribute("aria-activedescendant", active.id);
    else grid.removeAttribute("aria-activedescendant");
    if (!done && sight.last > items.length - 2 * layout.columns) this.needMore();
    if (layout === FALLBACK && items.length) this.#schedule(); // the rows are measured now
  }

  #make(item) {
    const { title, more } = wordsOf(item, this.state().sort);
    const picture = element("img");
    picture.alt = "";
    picture.draggable = false;
    replaceIfMissing(picture);
    picture.src = pictureAddress(item.image_id);
    const sign = element("span", "tick", "✓");
    sign.setAttribute("aria-hidden", "true");
    const tile = element("div", "tile", element("span", "film", picture, sign), element("span", "title", title), element("span", "by", more));
    tile.id = `tile-${item.image_id}`;
    tile.dataset.image = item.image_id;
    tile.setAttribute("role", "option");
    tile.title = Object.entries(item.labels).map((pair) => pair.join(": ")).join("\n");
    this.#shown.set(item.image_id, tile);
    return tile;
  }

  #mark(tile, position, id) {
    const { pages, selection } = this.state();
    tile.dataset.position = position;
    tile.classList.toggle("active", position === this.#active);
    tile.setAttribute("aria-selected", String(selection.has(id)));
    tile.setAttribute("aria-posinset", position + 1);
    tile.setAttribute("aria-setsize", pages.done ? pages.items.length : -1);
  }

  /** Draw tiles again whose words have changed. */
  refresh() {
    for (const tile of this.#shown.values()) tile.remove();
    this.#shown.clear();
    this.draw();
  }

  #click(event) {
    const tile = event.target.closest(".tile");
    if (!tile) return;
    const { pages, selection } = this.state();
    this.#active = Number(tile.dataset.position);
    grid.focus({ preventScroll: true });
    if (event.shiftKey) selection.extend(pages.ids, this.#active);
    else if (event.target.closest(".tick") || event.ctrlKey || event.metaKey) selection.toggle(pages.ids, this.#active);
    else {
      selection.anchor = this.#active;
      this.draw();
      this.onOpen(pages.items[this.#active]);
      return;
    }
    this.#selected();
  }

  #selected() {
    this.draw();
    this.onSelect();
  }

  #key(event) {
    const { pages, selection } = this.state();
    const { columns, rowHeight } = this.#layout();
    const page = Math.max(1, Math.floor(innerHeight / rowHeight) - 1);
    const moved = movedPosition(event.key, this.#active, { count: pages.items.length, columns, page });
    if (event.key === " ") {
      selection.toggle(pages.ids, this.#active);
    } else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) {
      selection.selectAll(pages.ids);
    } else if (event.key === "Enter") {
      if (pages.items[this.#active]) this.onOpen(pages.items[this.#active]);
    } else if (moved !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey && pages.items.length) {
      if (event.shiftKey) {
        selection.anchor ??= this.#active;
        selection.extend(pages.ids, moved);
      } else {
        selection.anchor = moved;
      }
      this.#active = moved;
    } else {
      return;
    }
    event.preventDefault();
    this.#reveal();
    this.#selected();
  }

  /** Scroll until the active tile is in sight. */
  #reveal() {
    const { columns, rowHeight } = this.#layout();
    const top = grid.getBoundingClientRect().top + Math.floor(this.#active / columns) * rowHeight;
    const bar = byId("selection").hidden ? 0 : byId("selection").offsetHeight;
    if (top < 0) scrollBy(0, top - 8);
    else if (top + rowHeight > innerHeight - bar) scrollBy(0, top + rowHeight - innerHeight + bar + 8);
  }
}
