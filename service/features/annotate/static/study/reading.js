// The course of a reader study: which item comes next, and when an answer is complete.

const FIELDS = ["useful_left", "useful_right", "better"];

/** The position of the first item without an answer from `start` on, wrapping around; -1 if all are answered. */
export function nextOpen(items, start = 0) {
  for (let step = 0; step < items.length; step += 1) {
    const position = (start + step) % items.length;
    if (!items[position].answer) return position;
  }
  return -1;
}

export const answered = (items) => items.filter((item) => item.answer).length;

export const missing = (answer) => FIELDS.filter((name) => !answer[name]);

/** The field and value that a key sets, null for other keys: 1 to 5 left, 6 to 0 right, L, E, R the better one. */
export function choiceOf(key) {
  if (/^[1-5]$/.test(key)) return { name: "useful_left", value: key };
  if (/^[67890]$/.test(key)) return { name: "useful_right", value: String(key === "0" ? 5 : key - 5) };
  const better = { l: "left", e: "equal", r: "right" }[key.toLowerCase()];
  return better ? { name: "better", value: better } : null;
}

/** Seconds that pass while the page is visible. */
export class Stopwatch {
  #spent = 0; // ms before #since
  #since = null; // null while it stands still
  #now;

  constructor(now = () => performance.now()) {
    this.#now = now;
    this.go();
  }

  /** Count from 0 again, with `seconds` spent before. */
  restart(seconds = 0) {
    this.#spent = seconds * 1000;
    this.#since = this.#now();
  }

  pause() {
    this.#spent = this.seconds * 1000;
    this.#since = null;
  }

  go = () => (this.#since ??= this.#now());

  get seconds() {
    return (this.#spent + (this.#since === null ? 0 : this.#now() - this.#since)) / 1000;
  }
}
