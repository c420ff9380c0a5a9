// The selected images of the gallery. Without the document.

export class Selection {
  ids = new Set();
  anchor = null; // position where a range begins: the last that was chosen or reached by a key

  get size() {
    return this.ids.size;
  }

  has(id) {
    return this.ids.has(id);
  }

  /** Select the image at a position of the list of ids, or drop it. */
  toggle(list, position) {
    const id = list[position];
    if (id === undefined) return;
    if (!this.ids.delete(id)) this.ids.add(id);
    this.anchor = position;
  }

  /** Select everything between the anchor and a position. */
  extend(list, position) {
    if (position < 0 || position >= list.length) return;
    const from = Math.min(this.anchor ?? position, list.length - 1);
    for (const id of list.slice(Math.min(from, position), Math.max(from, position) + 1)) this.ids.add(id);
    this.anchor ??= position;
  }

  /** Select all of the list. */
  selectAll(list) {
    for (const id of list) this.ids.add(id);
  }

  /** Drop images, such as deleted ones. */
  drop(ids) {
    for (const id of ids) this.ids.delete(id);
    this.anchor = null;
  }

  clear() {
    this.ids.clear();
    this.anchor = null;
  }
}
