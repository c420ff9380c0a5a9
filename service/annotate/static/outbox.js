// What was judged and is not on the server's disk yet: kept in the browser, sent in order, again and again.

import { send } from "./server.js";

const FIRST_WAIT = 300;
const LONGEST_WAIT = 4000; // ms

/** answered(response) after each that arrived; trouble(error | null) when that changes; changed(count) of the unsent. */
export class Outbox {
  constructor(prefix, { answered, trouble, changed }) {
    Object.assign(this, { prefix, answered, trouble, changed, sending: false, items: [], count: 0, wait: FIRST_WAIT });
    for (const key of stored(prefix)) {
      this.items.push({ key, ...JSON.parse(localStorage.getItem(key)) });
    }
    this.flush();
  }

  /** Pairs of judgements that are still to be sent. */
  get bodies() {
    return this.items.map((item) => item.body);
  }

  put(address, body) {
    this.count += 1;
    const place = `${Date.now()}-${String(this.count).padStart(6, "0")}`;
    const item = { key: `${this.prefix}${place}-${body.name}`, address, body };
    this.items.push(item);
    try {
      localStorage.setItem(item.key, JSON.stringify({ address, body }));
    } catch {
      // storage is switched off or full: it is kept while the page is open
    }
    this.flush();
  }

  async flush() {
    this.changed(this.items.length);
    if (this.sending) return;
    this.sending = true;
    while (this.items.length) {
      const [item] = this.items;
      try {
        const response = await send(item.address, item.body);
        this.drop(item);
        this.wait = FIRST_WAIT;
        this.trouble(null);
        this.answered(response);
      } catch (error) {
        this.trouble(error);
        if (error.kind === "refused") this.drop(item); // it would be refused for ever; the page says so
        else if (error.kind === "away" || error.kind === "busy") await this.rest();
        else break; // logged out: sent once the page is loaded anew
      }
    }
    this.sending = false;
  }

  drop(item) {
    this.items.shift();
    try {
      localStorage.removeItem(item.key);
    } catch {
      // it was never there
    }
    this.changed(this.items.length);
  }

  rest() {
    const wait = this.wait;
    this.wait = Math.min(2 * wait, LONGEST_WAIT);
    return new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function stored(prefix) {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(prefix)).sort();
  } catch {
    return [];
  }
}
