// Going through frames, slices and examples: a number, the mouse wheel, and keys over the picture.

import { byId } from "./dom.js";
import { stepped, stepsOf } from "./positions.js";
import { tr } from "./translate.js";

const WHEEL_STEP = 60; // pixels of scrolling for one step: a notch of a mouse wheel is 100 or more

let position = null;
let scrolled = 0;

/** Call onStep(index) when the user goes to another position. */
export function install(onStep) {
  const viewer = byId("drop");
  const go = (index) => position && index !== position.index && onStep(index);

  byId("frame").addEventListener("change", () => {
    const number = Math.round(Number(byId("frame").value)) || 1;
    if (position) go(stepped({ ...position, index: 0 }, number - 1));
  });
  byId("frame").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !position) return;
    event.preventDefault(); // of the form, which would search twice
    byId("frame").dispatchEvent(new Event("change"));
  });
  viewer.addEventListener("wheel", (event) => {
    if (!position || event.ctrlKey) return;
    event.preventDefault();
    scrolled += event.deltaMode ? event.deltaY * 16 : event.deltaY;
    const steps = Math.trunc(scrolled / WHEEL_STEP);
    if (!steps) return;
    scrolled = 0;
    go(stepped(position, Math.sign(steps))); // one a notch, however far the notch scrolls
  }, { passive: false });
  document.addEventListener("keydown", (event) => {
    if (!position || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const over = document.activeElement === viewer || (viewer.matches(":hover") && document.activeElement === document.body);
    const steps = over ? stepsOf(event.key, position.count) : 0;
    if (!steps) return;
    event.preventDefault();
    go(stepped(position, steps));
  });
}

/** Show a position {index, count, word}, or hide the controls for null. */
export function show(shown) {
  position = shown;
  byId("frame-field").hidden = !shown;
  const viewer = byId("drop");
  if (!shown) {
    viewer.setAttribute("aria-label", tr("Picture of the query"));
    return;
  }
  const values = { number: shown.index + 1, count: shown.count };
  viewer.setAttribute("aria-label", tr("Picture {number} of {count}: arrow keys, Page Up and Page Down go to others", values));
  byId("frame-word").textContent = shown.word;
  byId("frame-count").textContent = tr("of {count}", { count: shown.count });
  byId("frame").max = shown.count;
  byId("frame").value = shown.index + 1;
}
