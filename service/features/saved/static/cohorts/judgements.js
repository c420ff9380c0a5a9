// Judgements of the images of a batch, before they are sent.

/** Judgements of a list of image ids. */
export class Judgements {
  #marks = new Map(); // true or false by id

  constructor(ids) {
    this.ids = ids;
  }

  get size() {
    return this.#marks.size;
  }

  /** true, false, or undefined without a judgement. */
  of(id) {
    return this.#marks.get(id);
  }

  /** Judge an image, or take the same judgement back. */
  mark(id, relevant) {
    if (this.#marks.get(id) === relevant) this.#marks.delete(id);
    else this.#marks.set(id, relevant);
  }

  /** Belongs, does not, open: what a tap on the picture goes through. */
  step(id) {
    const next = { true: false, false: undefined, undefined: true }[this.#marks.get(id)];
    if (next === undefined) this.#marks.delete(id);
    else this.#marks.set(id, next);
  }

  /** Judge all that are open. */
  fill(relevant) {
    for (const id of this.ids) if (!this.#marks.has(id)) this.#marks.set(id, relevant);
  }

  /** In the form of the API, in the order of the images. */
  list() {
    return this.ids.filter((id) => this.#marks.has(id)).map((id) => ({ image_id: id, relevant: this.#marks.get(id) }));
  }
}
