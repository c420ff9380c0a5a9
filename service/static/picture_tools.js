// Tools over the picture of the query: zoom, move, actual size, invert, measure, magnify.

import { byId } from "./dom.js";
import { Lens } from "./lens.js";
import { Ruler } from "./ruler.js";
import { fixed, tr } from "./translate.js";
import { Zoom } from "./zoom.js";

const KEY_STEP = 0.1; // part of the picture that Shift and an arrow key move it by

const viewer = byId("drop");
const picture = byId("picture");
const paneOf = () => (picture.hidden ? null : viewer);
const isPressed = (id) => byId(id).getAttribute("aria-pressed") === "true";

let zoom = null;
let ruler = null;
let lens = null;

/** Connect the tools; onMove(): the picture has moved; factsOf(): {size, spacing} of the picture, null if unknown. */
export function install({ onMove, factsOf }) {
  const options = { paneOf, zoomsBy: (event) => event.ctrlKey, movesBy };
  zoom = new Zoom(viewer, [picture], (scale) => moved(scale, onMove), options);
  ruler = new Ruler({ area: viewer, button: byId("query-measure"), output: byId("query-measured"), paneOf, factsOf });
  lens = new Lens({ area: viewer, images: [picture], button: byId("query-lens"), paneOf });
  byId("query-larger").addEventListener("click", () => zoom.larger());
  byId("query-smaller").addEventListener("click", () => zoom.smaller());
  byId("query-fit").addEventListener("click", () => zoom.reset());
  byId("query-actual").addEventListener("click", () => zoom.actualSize());
  byId("query-move").addEventListener("click", () => press("query-move", !isPressed("query-move")));
  byId("query-invert").addEventListener("click", () => press("query-invert", viewer.classList.toggle("inverted")));
  viewer.addEventListener("keydown", key);
}

function press(id, on) {
  byId(id).setAttribute("aria-pressed", String(on));
  if (id === "query-move") viewer.classList.toggle("moving", on);
}

/** Presses of the middle button, with Shift, or with Move turned on move the picture; others select a region. */
function movesBy(event) {
  return event.button === 1 || (!event.button && (event.shiftKey || isPressed("query-move")));
}

function moved(scale, onMove) {
  byId("query-zoom").textContent = tr("{number} %", { number: fixed(scale * 100, 0) });
  ruler?.clear();
  lens?.draw();
  onMove();
}

function key(event) {
  if (event.target !== viewer || event.ctrlKey || event.metaKey || event.altKey) return;
  const shifts = { ArrowLeft: [KEY_STEP, 0], ArrowRight: [-KEY_STEP, 0], ArrowUp: [0, KEY_STEP], ArrowDown: [0, -KEY_STEP] };
  if (!lens.key(event)) {
    if (!event.shiftKey || !shifts[event.key]) return;
    zoom.shift(...shifts[event.key]);
  }
  event.preventDefault();
  event.stopPropagation(); // of the keys that go through slices
}

/** {scale, x, y} of the picture: x and y are shifts in parts of the viewer. */
export function place() {
  return zoom ? { scale: zoom.scale, x: zoom.x, y: zoom.y } : { scale: 1, x: 0, y: 0 };
}

/** Show the tools for a picture, or hide them; a new query begins with the whole picture. */
export function show(shown, isNew = false) {
  byId("picture-tools").hidden = !shown;
  if (shown) viewer.tabIndex = 0;
  else viewer.removeAttribute("tabindex");
  if (shown && !isNew) return;
  zoom.reset();
  ruler.toggle(false);
  lens.toggle(false);
}

/** Keys of the page for the picture. */
export const KEYS = {
  "+": () => zoom.larger(),
  "=": () => zoom.larger(),
  "-": () => zoom.smaller(),
  0: () => zoom.reset(),
  v: () => byId("query-invert").click(),
  m: () => byId("query-measure").click(),
  z: pressLens,
};

/** Turn the magnifier on or off; on, the picture gets the focus, so that arrow keys move it. */
function pressLens() {
  if (picture.hidden) return;
  byId("query-lens").click();
  if (lens.isOn) viewer.focus({ preventScroll: true });
}
