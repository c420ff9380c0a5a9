// The selected images. Without the document.

export class Selection {
  ids = new Set();
  anchor = null; // position where a range begins: the last that was chosen or reached by a key

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
    this.add(list.slice(Math.min(from, position), Math.max(from, position) + 1));
    this.anchor ??= position;
  }

  /** Select all of a list. */
  add(list) {
    for (const id of list) this.ids.add(id);
  }

  clear() {
    this.ids.clear();
    this.anchor = null;
  }
}
