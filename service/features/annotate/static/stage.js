// The pictures of the current item: drawn, zoomed and windowed together, and loaded ahead.

import { byId } from "/static/dom.js";
import { tr } from "/static/translate.js";
import { tidy, windowInStep } from "/static/viewer/levels.js";
import { loadPicture } from "/static/viewer/picture_source.js";
import "/static/viewer/viewer.js";
import { toRequestError } from "./server.js";

const PRELOADED = 4; // items whose pictures are loaded ahead

/** The picture of an image, as a slice of a viewer. */
export const sliceOf = (id) => ({ address: `/annotate/images/${id}/picture` });

export class Stage {
  /** queue: of items. onError(error) is called if a picture cannot be loaded. onDraw() after each drawing. */
  constructor(queue, { onError, onDraw }) {
    this.viewers = [...byId("panes").querySelectorAll("cbir-viewer")];
    Object.assign(this, { queue, onDraw, chosen: null }); // chosen: {window, picture} by the person, null for that of each file
    const names = this.viewers.length > 1 ? [tr("Left image"), tr("Right image")] : [tr("Image to grade")];
    this.viewers.forEach((viewer, index) => Object.assign(viewer, { label: names[index], linked: "judged" }));
    byId("panes").addEventListener("cbir-window", ({ detail }) => {
      this.chosen = detail.window && detail;
      this.preload();
    });
    byId("panes").addEventListener("cbir-failed", ({ detail }) => onError(toRequestError(detail.error)));
  }

  /** True if nothing was drawn yet. */
  get isEmpty() {
    return !this.viewers[0].picture;
  }

  /** The sources of an item's pictures, if these are loaded already. */
  loaded(item) {
    return item.chosen === this.chosen ? item.loaded : null;
  }

  /** Load the pictures of an item, in the window that was chosen; resolves with their sources. */
  async load(item) {
    if (item.loading && item.chosen === this.chosen) return item.loading;
    const { chosen } = this;
    const source = async (id) => {
      const picture = await loadPicture(sliceOf(id));
      const window = chosen && windowInStep(chosen.window, chosen.picture, picture);
      if (!window) return { kind: "address", ...sliceOf(id) };
      await loadPicture(sliceOf(id), { window: tidy(window) });
      return { kind: "address", ...sliceOf(id), window: tidy(window) };
    };
    return Promise.all(item.ids.map(source)).catch((error) => Promise.reject(toRequestError(error)));
  }

  /** Load the pictures of the next items. */
  preload() {
    for (const item of this.queue.following.slice(0, PRELOADED)) {
      if (item.loading && item.chosen === this.chosen) continue;
      Object.assign(item, { loading: null, loaded: null });
      const loading = this.load(item).then((loaded) => {
        if (item.loading === loading) item.loaded = loaded;
        return loaded;
      });
      Object.assign(item, { loading, chosen: this.chosen });
      loading.catch(() => {
        if (item.loading === loading) item.loading = null; // tried again when the item is shown
      });
    }
  }

  draw(item, sources) {
    const { place } = this.viewers[0];
    this.viewers.forEach((viewer, index) => {
      viewer.source = sources[index];
      viewer.place = place; // the same for all items
    });
    const [first, second = ""] = item.ids;
    Object.assign(byId("panes").dataset, { first, second });
    this.onDraw();
  }
}
