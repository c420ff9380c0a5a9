// Judgements that the server has not stored yet: kept in the browser and sent in order, with retries.

import { remedyOf, send } from "./study_facts.js";

const MIN_WAIT = 300; // ms
const MAX_WAIT = 4000; // ms

/** Run work on the browser's storage, which may be disabled or full: then items last while the page is open. */
function stored(work) {
  try {
    return work(localStorage);
  } catch {
    return null;
  }
}

export class Outbox {
  /** Calls onResponse(response) for each stored item, onError(error | null), and onChange(count) of the unsent items. */
  constructor(prefix, { onResponse, onError, onChange }) {
    Object.assign(this, { prefix, onResponse, onError, onChange, sending: false, count: 0, wait: MIN_WAIT });
    const keys = stored((storage) => Object.keys(storage).filter((key) => key.startsWith(prefix)).sort()) ?? [];
    this.items = keys.map((key) => ({ key, ...JSON.parse(localStorage.getItem(key)) }));
    this.flush();
  }

  /** The bodies of the unsent requests. */
  get bodies() {
    return this.items.map((item) => item.body);
  }

  /** Queue a request and start sending. */
  add(address, body) {
    this.count += 1;
    const position = `${Date.now()}-${String(this.count).padStart(6, "0")}`;
    const item = { key: `${this.prefix}${position}-${body.name}`, address, body };
    this.items.push(item);
    stored((storage) => storage.setItem(item.key, JSON.stringify({ address, body })));
    this.flush();
  }

  async flush() {
    this.onChange(this.items.length);
    if (this.sending) return;
    this.sending = true;
    while (this.items.length) {
      const [item] = this.items;
      try {
        const response = await send(item.address, item.body);
        this.remove(item);
        this.wait = MIN_WAIT;
        this.onError(null);
        this.onResponse(response);
      } catch (error) {
        this.onError(error);
        const remedy = remedyOf(error);
        if (remedy === "login") break; // sent after the page is reloaded
        if (remedy === "later") await this.pause();
        else this.remove(item); // would be refused again; the page shows the error
      }
    }
    this.sending = false;
  }

  remove(item) {
    this.items.shift();
    stored((storage) => storage.removeItem(item.key));
    this.onChange(this.items.length);
  }

  pause() {
    const wait = this.wait;
    this.wait = Math.min(2 * wait, MAX_WAIT);
    return new Promise((resolve) => setTimeout(resolve, wait));
  }
}
