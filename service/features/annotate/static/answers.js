// Answers of this page: sent in the background, and undone.

import { isIdentified } from "./annotator.js";

const MAX_SECONDS = 86400; // the server's limit, reached when the page is left open for days

export class Answers {
  /** outbox: sends requests in order. annotator: name of the person. */
  constructor(outbox, annotator) {
    Object.assign(this, { outbox, annotator, history: [] }); // history: what can be undone, the newest last
  }

  /** Send an answer; entry has what the undo needs. */
  send(address, fields, milliseconds, entry) {
    const name = crypto.randomUUID();
    const seconds = Math.min(milliseconds / 1000, MAX_SECONDS);
    this.history.push({ name, seconds, ...entry });
    this.outbox.add(address, this.signed({ name, seconds, ...fields }));
  }

  /** Undo the latest answer and return its entry; undefined if there is none. */
  undo() {
    const last = this.history.pop();
    if (last) this.outbox.add("/annotate/undo", this.signed({ name: crypto.randomUUID(), undoes: last.name }));
    return last;
  }

  /** Take over the answers of earlier visits; those whose undo is not sent yet are left out. */
  load(history) {
    const undone = new Set(this.outbox.bodies.map(({ undoes }) => undoes));
    this.history = history.filter(({ name }) => !undone.has(name));
  }

  signed(body) {
    return isIdentified() ? body : { ...body, who: this.annotator };
  }
}
