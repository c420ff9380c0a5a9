// The state of a page: one plain object. Parts of the page are drawn from it, and never read back.
// Scripts of features add parts of their own; the page's own script, which comes after them, calls their functions.

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

export const subscribe = (draw) => draws.push(draw);

const parts = [];

/** Add an object with functions that the page calls. */
export const addPart = (part) => parts.push(part);

/** Call the function `name` of each part that has one; returns what they return. */
export const callParts = (name, ...values) => parts.filter((part) => part[name]).map((part) => part[name](...values));
