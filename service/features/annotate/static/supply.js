// Supplies the queue with items, and asks for better ones after each training.

import { showError } from "./covers.js";
import { isIdentified } from "./annotator.js";
import { showAgreement, showProgress } from "./progress.js";
import { request } from "./server.js";

const BATCH = 8; // items per request
const POLL_INTERVAL = 2000; // ms

export class Supply {
  /** task: of TASKS, with its name. onFirst(response) is called once, onItems(progress) after each response. */
  constructor(queue, task, answers, { onFirst, onItems }) {
    Object.assign(this, { queue, task, answers, onFirst, onItems });
    Object.assign(this, { trainedOn: null, pending: null, timeout: null, hasResponse: false });
  }

  /** Handle the progress in a response. */
  handle(progress) {
    showProgress(progress, this.task.name);
    const isNew = this.trainedOn !== null && progress.trained_on !== this.trainedOn;
    this.trainedOn = progress.trained_on;
    if (isNew) this.refill(true);
    else if (progress.learning === "learning") this.refillLater();
  }

  refillLater() {
    clearTimeout(this.timeout);
    this.timeout = setTimeout(() => this.refill(), POLL_INTERVAL);
  }

  /** Request the next items; replace: drop the queued ones, which were selected before the latest training. */
  async refill(replace = false) {
    if (this.pending && !replace) return this.pending;
    const refilling = this.load(replace, () => this.pending === refilling).finally(() => {
      if (this.pending === refilling) this.pending = null;
    });
    this.pending = refilling;
    return refilling;
  }

  async load(replace, isLatest) {
    const query = new URLSearchParams({ count: BATCH + this.answers.outbox.items.length });
    if (!isIdentified()) query.set("who", this.answers.annotator);
    let response;
    try {
      response = await (await request(`${this.task.address}?${query}`)).json();
    } catch (error) {
      showError(error);
      if (error.kind === "offline" || error.kind === "busy") this.refillLater();
      return;
    }
    if (!isLatest()) return;
    if (!this.answers.outbox.items.length) showError(null);
    if (!this.hasResponse) this.onFirst(response);
    this.hasResponse = true;
    this.queue.add(this.task.items(response), replace);
    showAgreement(response.agreement);
    this.handle(response.progress);
    this.onItems(response.progress);
  }
}
