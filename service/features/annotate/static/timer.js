// Measures the time a person looks at a pair, without pauses.

export class Timer {
  constructor() {
    this.elapsed = 0; // ms until the last stop
    this.startedAt = null;
  }

  /** Start from zero. */
  start() {
    this.elapsed = 0;
    this.startedAt = performance.now();
  }

  stop() {
    this.elapsed = this.read();
    this.startedAt = null;
  }

  resume() {
    this.startedAt ??= performance.now();
  }

  /** The time so far in ms. */
  read() {
    return this.elapsed + (this.startedAt === null ? 0 : performance.now() - this.startedAt);
  }
}
