// Events of the usage log that wait to be sent.

export const BATCH = 50; // events of one request

/** A queue in which a later value of an event replaces the earlier one. */
export class UsageQueue {
  #waiting = new Map(); // events by search, kind and image

  /** Add an event {search, event, image, value}. */
  add({ search, event, image = "", value = 1 }) {
    const key = [search, event, image].join(" ");
    this.#waiting.delete(key); // to the end
    this.#waiting.set(key, { search, event, image, value });
  }

  get size() {
    return this.#waiting.size;
  }

  /** Remove the next events and return them; at most `limit`. */
  take(limit = BATCH) {
    const keys = [...this.#waiting.keys()].slice(0, limit);
    const events = keys.map((key) => this.#waiting.get(key));
    for (const key of keys) this.#waiting.delete(key);
    return events;
  }
}
