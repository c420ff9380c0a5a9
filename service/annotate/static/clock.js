// How long a person looks at a pair, without pauses.

export class Clock {
  constructor() {
    this.passed = 0; // ms, until it was stopped last
    this.since = null;
  }

  /** From nothing. */
  start() {
    this.passed = 0;
    this.since = performance.now();
  }

  stop() {
    this.passed = this.read();
    this.since = null;
  }

  resume() {
    this.since ??= performance.now();
  }

  /** ms */
  read() {
    return this.passed + (this.since === null ? 0 : performance.now() - this.since);
  }
}
