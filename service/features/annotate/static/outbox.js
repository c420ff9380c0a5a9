// Judgements that the server has not stored yet: kept in the browser and sent in order, with retries.

import { postJson } from "./server.js";

const MIN_WAIT = 300; // ms
const MAX_WAIT = 4000; // ms

/** Calls onResponse(response) for each stored item, onError(error | null), and onChange(count) of the unsent items. */
export class Outbox {
  constructor(prefix, { onResponse, onError, onChange }) {
    Object.assign(this, { prefix, onResponse, onError, onChange, sending: false, items: [], count: 0, wait: MIN_WAIT });
    for (const key of storedKeys(prefix)) {
      this.items.push({ key, ...JSON.parse(localStorage.getItem(key)) });
    }
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
    try {
      localStorage.setItem(item.key, JSON.stringify({ address, body }));
    } catch {
      // storage is disabled or full: the item lasts while the page is open
    }
    this.flush();
  }

  async flush() {
    this.onChange(this.items.length);
    if (this.sending) return;
    this.sending = true;
    while (this.items.length) {
      const [item] = this.items;
      try {
        const response = await postJson(item.address, item.body);
        this.remove(item);
        this.wait = MIN_WAIT;
        this.onError(null);
        this.onResponse(response);
      } catch (error) {
        this.onError(error);
        if (error.kind === "refused") this.remove(item); // would be refused again; the page shows the error
        else if (error.kind === "offline" || error.kind === "busy") await this.pause();
        else break; // logged out: sent after the page is reloaded
      }
    }
    this.sending = false;
  }

  remove(item) {
    this.items.shift();
    try {
      localStorage.removeItem(item.key);
    } catch {
      // it was not stored
    }
    this.onChange(this.items.length);
  }

  pause() {
    const wait = this.wait;
    this.wait = Math.min(2 * wait, MAX_WAIT);
    return new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function storedKeys(prefix) {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(prefix)).sort();
  } catch {
    return [];
  }
}
