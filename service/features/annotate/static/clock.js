// The time for the current item, which stands still in pauses and while something else is read.

import { byId } from "/static/dom.js";
import { Timer } from "./timer.js";

export class Clock {
  constructor() {
    Object.assign(this, { timer: new Timer(), isPaused: false, isHeld: false });
  }

  /** Start from zero for a new item. */
  start() {
    this.timer.start();
    if (this.isPaused || this.isHeld) this.timer.stop();
  }

  stop() {
    this.timer.stop();
  }

  /** Milliseconds so far. */
  read() {
    return this.timer.read();
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    byId("pause").disabled = isPaused;
    if (isPaused) this.timer.stop();
    else if (!this.isHeld) this.timer.resume();
  }

  /** Stand still while the instructions or a reference image are read. */
  hold() {
    this.isHeld = true;
    this.timer.stop();
  }

  /** Go on if an item is on the screen. */
  release(isShown) {
    this.isHeld = false;
    if (isShown && !this.isPaused) this.timer.resume();
  }
}
