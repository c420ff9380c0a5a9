// The pictures of the current item: drawn, zoomed and windowed together, and loaded ahead.

import { byId } from "/static/dom.js";
import { Windowing } from "/static/windowing.js";
import { Zoom } from "/static/zoom.js";
import { tr } from "/static/translate.js";
import { loadPictures } from "./pair_images.js";

const PRELOADED = 4; // items whose pictures are loaded ahead
const PANES = ["left", "right"];

export class Stage {
  /** queue: of items. onError(error) is called if a change of the window fails. onDraw() after each drawing. */
  constructor(queue, { onError, onDraw }) {
    Object.assign(this, { queue, onError, onDraw, shared: null }); // shared: {scale, window}, null for each file's own
    this.zoom = new Zoom(byId("panes"), [], (scale) => {
      byId("zoom").textContent = tr("{percent} %", { percent: Math.round(scale * 100) });
    });
    this.windowing = new Windowing((window) => this.setWindow(window), (window) => this.setWindow(window));
  }

  /** True if nothing was drawn yet. */
  get isEmpty() {
    return !byId("left").childElementCount;
  }

  /** The pictures of an item, if they are loaded already. */
  loaded(item) {
    return item.shared === this.shared ? item.loaded : null;
  }

  /** Load the pictures of an item. */
  load(item) {
    return item.loading && item.shared === this.shared ? item.loading : loadPictures(item.ids, this.shared);
  }

  /** Load the pictures of the next items. */
  preload() {
    for (const item of this.queue.following.slice(0, PRELOADED)) {
      if (item.loading && item.shared === this.shared) continue;
      Object.assign(item, { shared: this.shared, loaded: null });
      const loading = loadPictures(item.ids, this.shared).then((loaded) => {
        if (item.loading === loading) item.loaded = loaded;
        return loaded;
      });
      item.loading = loading;
      loading.catch(() => {
        if (item.loading === loading) item.loading = null; // tried again when the item is shown
      });
    }
  }

  draw(item, { images, info }) {
    images.forEach((image, position) => byId(PANES[position]).replaceChildren(image));
    const [first, second = ""] = item.ids;
    Object.assign(byId("panes").dataset, { first, second });
    this.zoom.images = images;
    this.zoom.draw();
    item.scale = info?.scale;
    const window = info && this.shared?.scale === info.scale ? this.shared.window : info?.window;
    this.windowing.set(info && { ...info, window });
    byId("windowed").textContent = this.shared ? "" : tr("(default of each file)");
    this.onDraw();
  }

  /** Show the images in a window, or each in its own with null. */
  async setWindow(window) {
    const item = this.queue.current;
    this.shared = window && item ? { scale: item.scale, window } : null;
    const requested = this.shared;
    if (!item) return;
    try {
      const loaded = await loadPictures(item.ids, requested);
      if (item === this.queue.current && requested === this.shared) this.draw(item, loaded);
    } catch (error) {
      this.onError(error);
    }
    if (requested === this.shared) this.preload();
  }
}
