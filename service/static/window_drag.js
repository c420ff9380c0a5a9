// Changing a window by dragging with the right mouse button.

import { dragged } from "./window_presets.js";

/**
 * Follow drags in an element. settings(event): {window, values} of the picture under the pointer, null if it has no
 * window; onMove(window, event) is called while the pointer moves, onEnd(window) when it is released.
 */
export function installWindowDrag(target, { settings, onMove, onEnd }) {
  let start = null;
  let window = null;
  target.addEventListener("contextmenu", (event) => settings(event) && event.preventDefault());
  target.addEventListener("pointerdown", (event) => {
    const found = event.button === 2 && settings(event);
    if (!found) return;
    start = { ...found, x: event.clientX, y: event.clientY };
    window = null;
    target.setPointerCapture(event.pointerId);
  });
  target.addEventListener("pointermove", (event) => {
    if (!start) return;
    window = dragged(start.window, event.clientX - start.x, event.clientY - start.y, start.values).map((value) => Number(value.toPrecision(6)));
    onMove(window);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    target.addEventListener(end, () => {
      if (start && window) onEnd(window);
      start = null;
    });
  }
}
