// The state of a page: one plain object. Parts of the page are drawn from it, and never read back.

export const state = {};

const draws = [];
let waiting = false;

/** Change the state; what is subscribed is drawn once, after the running script. */
export function update(changes) {
  Object.assign(state, changes);
  if (waiting) return;
  waiting = true;
  queueMicrotask(() => {
    waiting = false;
    for (const draw of draws) draw(state);
  });
}

/** Call draw(state) after each change. */
export function subscribe(draw) {
  draws.push(draw);
}
