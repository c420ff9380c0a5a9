// Measuring lengths in pictures by dragging.

import { lengthText } from "./ruler_length.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

/**
 * Measures in the panes of `area` while `button` is pressed; `output` shows the length.
 * paneOf(event): the pane under the pointer; factsOf(picture): {size, spacing} of a picture, null if unknown.
 */
export class Ruler {
  constructor({ area, button, output, paneOf = (event) => event.target.closest(".pane"), factsOf }) {
    Object.assign(this, { area, button, output, paneOf, factsOf, start: null });
    button.addEventListener("click", () => this.toggle());
    area.addEventListener("pointerdown", (event) => this.down(event), true); // before what else a drag would do
    area.addEventListener("pointermove", (event) => this.start && this.draw(event));
    for (const end of ["pointerup", "pointercancel"]) area.addEventListener(end, () => (this.start = null));
  }

  get isOn() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  toggle(on = !this.isOn) {
    this.button.setAttribute("aria-pressed", String(on));
    this.area.classList.toggle("measuring", on);
    this.clear();
  }

  /** Take the line away, when the pictures have moved. */
  clear() {
    for (const line of this.area.querySelectorAll(".ruler")) line.remove();
    this.output.textContent = "";
  }

  down(event) {
    const pane = this.paneOf(event);
    if (!this.isOn || !pane || event.button) return;
    event.preventDefault();
    event.stopPropagation();
    this.clear();
    pane.setPointerCapture(event.pointerId);
    this.start = { x: event.clientX, y: event.clientY, pane };
  }

  draw(event) {
    const { x, y, pane } = this.start;
    const picture = pane.querySelector("img");
    const facts = this.factsOf(picture);
    const size = facts?.size ?? { width: picture.naturalWidth, height: picture.naturalHeight };
    const shown = picture.getBoundingClientRect();
    const scale = Math.min(shown.width / size.width, shown.height / size.height);
    const [right, down] = [(event.clientX - x) / scale, (event.clientY - y) / scale];
    this.clear();
    const frame = pane.getBoundingClientRect();
    const drawing = document.createElementNS(NAMESPACE, "svg");
    drawing.setAttribute("class", "ruler");
    const line = document.createElementNS(NAMESPACE, "line");
    const ends = { x1: x - frame.left, y1: y - frame.top, x2: event.clientX - frame.left, y2: event.clientY - frame.top };
    for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
    drawing.append(line);
    pane.append(drawing);
    this.output.textContent = lengthText(right, down, facts?.spacing);
  }
}
