// Measuring lengths in the pictures of the comparison.

import { byId } from "./dom.js";
import { lengthText } from "./ruler_length.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const panes = byId("panes");
const button = byId("measure");

let factsOf = null;
let start = null; // {x, y, pane} of the drag, in pixels of the screen

const isOn = () => button.getAttribute("aria-pressed") === "true";

/** Take the line away, when the pictures have moved. */
export function clear() {
  for (const line of panes.querySelectorAll(".ruler")) line.remove();
  byId("measured").textContent = "";
}

/** Measure by dragging while the button is pressed; facts(id): {size, spacing} of a picture, null if unknown. */
export function install(facts) {
  factsOf = facts;
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(!isOn()));
    panes.classList.toggle("measuring", isOn());
    clear();
  });
  panes.addEventListener("pointerdown", down, true); // before the zoom, which would move the pictures
  panes.addEventListener("pointermove", (event) => start && draw(event));
  for (const end of ["pointerup", "pointercancel"]) panes.addEventListener(end, () => (start = null));
}

function down(event) {
  const pane = event.target.closest(".pane");
  if (!isOn() || !pane || event.button) return;
  event.preventDefault();
  event.stopPropagation();
  clear();
  pane.setPointerCapture(event.pointerId);
  start = { x: event.clientX, y: event.clientY, pane };
}

function draw(event) {
  const { x, y, pane } = start;
  const picture = pane.querySelector("img");
  const facts = factsOf(picture.id);
  const size = facts?.size ?? { width: picture.naturalWidth, height: picture.naturalHeight };
  const shown = picture.getBoundingClientRect();
  const scale = Math.min(shown.width / size.width, shown.height / size.height);
  const [right, down] = [(event.clientX - x) / scale, (event.clientY - y) / scale];
  clear();
  const frame = pane.getBoundingClientRect();
  const drawing = document.createElementNS(NAMESPACE, "svg");
  drawing.setAttribute("class", "ruler");
  const line = document.createElementNS(NAMESPACE, "line");
  const ends = { x1: x - frame.left, y1: y - frame.top, x2: event.clientX - frame.left, y2: event.clientY - frame.top };
  for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
  drawing.append(line);
  pane.append(drawing);
  byId("measured").textContent = lengthText(right, down, facts?.spacing);
}
