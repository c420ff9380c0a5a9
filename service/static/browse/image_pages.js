// The images that are loaded so far, page by page, and those that are selected. Without the document.

export const PAGE = 100; // images of a request

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
    this.failed = true; // until it has succeeded
    const { items, next } = await this.load(this.#next, signal);
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

  item = (id) => this.items[this.positions.get(id)];

  records = (ids) => [...ids].map((id) => this.item(id)).filter(Boolean);

  remove(ids) {
    const gone = new Set(ids);
    this.items = this.items.filter((item) => !gone.has(item.image_id));
    this.positions = new Map(this.items.map((item, position) => [item.image_id, position]));
  }

  replace(records) {
    for (const record of records) if (this.positions.has(record.image_id)) this.items[this.positions.get(record.image_id)] = record;
  }

  stop = () => this.#controller.abort();
}

export class Selection {
  ids = new Set();
  anchor = null; // position where a range begins: the last that was chosen or reached by a key

  toggle(list, position) {
    const id = list[position];
    if (id === undefined) return;
    if (!this.ids.delete(id)) this.ids.add(id);
    this.anchor = position;
  }

  extend(list, position) {
    if (position < 0 || position >= list.length) return;
    const from = Math.min(this.anchor ?? position, list.length - 1);
    this.add(list.slice(Math.min(from, position), Math.max(from, position) + 1));
    this.anchor ??= position;
  }

  add(list) {
    for (const id of list) this.ids.add(id);
  }

  clear() {
    this.ids.clear();
    this.anchor = null;
  }
}
