// The images that are loaded so far, page by page. Without the document.

export const PAGE = 200; // images of a request

export class ImagePages {
  items = []; // records
  positions = new Map(); // in the list, by image id
  done = false;
  failed = false; // the last request; a person may ask again
  #next = null;
  #loading = null;
  #controller = new AbortController();

  /** load(cursor, signal): loads a page {items, next}. */
  constructor(load) {
    this.load = load;
  }

  /** Load the next page, or wait for the one on its way; resolves with whether there was one. */
  more() {
    if (this.done) return Promise.resolve(false);
    this.#loading ??= this.#append().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #append() {
    const { signal } = this.#controller;
    const { items, next } = await this.load(this.#next, signal).catch((error) => {
      this.failed = true;
      throw error;
    });
    this.failed = false;
    if (signal.aborted) return false;
    for (const item of items) {
      if (this.positions.has(item.image_id)) continue; // its label has changed meanwhile
      this.positions.set(item.image_id, this.items.length);
      this.items.push(item);
    }
    this.#next = next;
    this.done = next === null;
    return true;
  }

  get ids() {
    return this.items.map((item) => item.image_id);
  }

  /** The records of these ids that are loaded. */
  records(ids) {
    return [...ids].filter((id) => this.positions.has(id)).map((id) => this.items[this.positions.get(id)]);
  }

  /** Take deleted images out. */
  remove(ids) {
    const gone = new Set(ids);
    this.items = this.items.filter((item) => !gone.has(item.image_id));
    this.positions = new Map(this.items.map((item, position) => [item.image_id, position]));
  }

  /** Change the labels of loaded images; null removes one. */
  relabel(ids, labels) {
    for (const item of this.records(ids)) {
      for (const [key, value] of Object.entries(labels)) {
        if (value === null) delete item.labels[key];
        else item.labels[key] = value;
      }
    }
  }

  stop() {
    this.#controller.abort();
  }
}
