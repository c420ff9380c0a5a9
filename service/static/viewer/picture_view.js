// One picture that can be windowed, zoomed, measured in and selected from: what <cbir-viewer> is without its slices and groups.

import { number, tr } from "../translate.js";
import { html, render } from "../vendor/lit.js";
import { handleKey, installGestures } from "./gestures.js";
import * as groups from "./groups.js";
import { EIGHT_BIT, Film, rounded, tidy } from "./levels.js";
import { keyOf } from "./picture_source.js";
import { actualScale, FITTED, layoutOf, moved, zoomed } from "./place.js";
import { drawShapes } from "./shapes.js";
import { ToolStrip } from "./tool_strip.js";

const RENDER_DELAY = 80; // ms from the last change of a window to its rendering by the service
const measures = new Map(); // lists of shapes by the key of their picture

export class PictureView extends HTMLElement {
  static observedAttributes = ["tools", "label"];

  picture = null;
  place = FITTED;
  tool = "zoom";
  shapeKind = "length"; // that measuring draws
  chosen = null; // the shape that keys move
  firstWindow = null; // of the first picture whose values all have one scale: others are shown in it
  overlayOpacity = 1;
  word = ""; // for a slice
  #values = { window: null, region: null, marked: null, inverted: false, flipped: false, overlay: null };
  #timer = null;
  #scheduled = false;
  #observer = null;

  connectedCallback() {
    if (!this.stage) this.#build();
    this.#observer = new ResizeObserver(() => this.redraw());
    this.#observer.observe(this.stage);
    this.redraw();
  }

  disconnectedCallback() {
    this.#observer.disconnect();
  }

  #build() {
    const keyless = this.hasAttribute("keyless");
    this.film = new Film();
    this.strip = new ToolStrip(this);
    render(html`<div class="viewer-stage" role="group" tabindex=${keyless ? -1 : 0} @keydown=${(event) => keyless || this.press(event)}>${this.film.canvas}<svg aria-hidden="true"></svg><p class="viewer-note"></p>
        <div class="viewer-facts"><output class="viewer-window"></output><output class="viewer-counter"></output></div></div>
      ${this.strip.node}<input class="viewer-slider" type="range" min="1" @input=${() => this.goTo(this.slider.valueAsNumber - 1, true)} /><output class="viewer-measured unseen"></output>`, this);
    const parts = { stage: "stage", drawing: "stage svg", note: "note", windowed: "window", counter: "counter", slider: "slider", measured: "measured" };
    for (const [name, part] of Object.entries(parts)) this[name] = this.querySelector(`.viewer-${part}`);
    installGestures(this);
  }

  attributeChangedCallback() {
    this.redraw();
  }

  get tools() {
    return (this.getAttribute("tools") ?? "").split(" ").filter(Boolean);
  }

  get scale() {
    return this.place.scale;
  }

  get shapes() {
    return (this.slice && measures.get(keyOf(this.slice))) ?? [];
  }

  set shapes(shapes) {
    measures.set(keyOf(this.slice), shapes);
    this.redraw();
  }

  say = (text) => this.note && (this.note.textContent = text);

  /** Show nothing, before the picture of another source. */
  empty(window = null) {
    Object.assign(this, { picture: null, place: FITTED, chosen: null, firstWindow: null });
    this.#values.window = window;
    this.#values.region = this.#values.overlay = null;
    this.say("");
    this.film?.clear();
    if (this.tool === "region") Object.assign(this, { tool: "zoom" }).strip.close();
  }

  // Window

  get window() {
    return this.#values.window;
  }

  set window(window) {
    this.#values.window = window && tidy(window);
    this.redraw();
    if (!this.picture?.rendered) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load(), RENDER_DELAY);
  }

  /** The window that is shown: that of the user, of the first picture, or of this one. */
  get shownWindow() {
    return this.window ?? groups.firstWindow(this) ?? (this.picture?.windowing ?? EIGHT_BIT).window;
  }

  /** Change the window here and in the group, null for that of the file. */
  changeWindow(window) {
    this.window = window;
    this.dispatch("window", { window: this.window, picture: this.picture });
    groups.shareWindow(this);
  }

  // Zoom

  get layout() {
    const { width, height } = this.pane;
    return layoutOf(this.picture.size, { width, height }, this.place, { flipped: this.flipped, aspect: this.aspect });
  }

  get pane() {
    return { width: this.stage.clientWidth || 1, height: this.stage.clientHeight || 1 };
  }

  /** The height of a pixel in parts of its width. */
  get aspect() {
    const { rows, columns } = this.picture?.spacing ?? { rows: 1, columns: 1 };
    return rows > 0 && columns > 0 ? rows / columns : 1;
  }

  /** Show the picture at another place, here and in the group. */
  placeAt(place) {
    for (const each of [this, ...groups.othersOf(this, "zoom")]) {
      each.place = place;
      each.redraw();
    }
    this.dispatch("zoom", { scale: place.scale });
  }

  fit = () => this.placeAt(FITTED);
  zoomBy = (factor, point) => this.placeAt(zoomed(this.place, factor, point));
  moveBy = (right, down) => this.placeAt(moved(this.place, right, down));

  /** Window and zoom of the file, here and in the group. */
  reset() {
    this.fit();
    this.inverted = false;
    if (this.window) this.changeWindow(null);
  }

  actualSize() {
    if (!this.picture) return;
    const scale = actualScale(this.picture.size, this.pane, devicePixelRatio, this.aspect);
    this.placeAt(zoomed(this.place, scale / this.place.scale, [0, 0], scale));
  }

  // Region

  selectRegion(region) {
    this.region = region;
    this.dispatch("region", region);
  }

  /** Let keys move the region, or one in the middle of the picture; Enter selects it. */
  beginRegion() {
    this.regionBefore = this.region;
    this.chosen = "region";
    this.region ??= { x: 0.25, y: 0.25, width: 0.5, height: 0.5 };
    this.stage.focus({ preventScroll: true });
  }

  /** Leave the shape that keys move; a region is selected, or as it was before. */
  endShape(isTaken) {
    const isRegion = this.chosen === "region";
    this.chosen = null;
    if (isRegion && isTaken) this.selectRegion(this.region);
    else if (isRegion) this.region = this.regionBefore;
    this.redraw();
  }

  press(event) {
    const isDone = handleKey(this, event);
    if (isDone) {
      event.preventDefault();
      event.stopPropagation();
    }
    return isDone;
  }

  dispatch(name, detail) {
    this.dispatchEvent(new CustomEvent(`cbir-${name}`, { detail, bubbles: true }));
  }

  // Drawing

  redraw() {
    if (this.#scheduled || !this.stage) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      if (this.isConnected) this.#draw();
    });
  }

  #draw() {
    this.film.draw(this);
    drawShapes(this);
    const { count, picture } = this;
    const shown = (this.shownIndex < 0 ? this.index : this.shownIndex) + 1;
    this.slider.hidden = count < 2;
    this.slider.max = count;
    if (this.slider.valueAsNumber !== this.index + 1) this.slider.value = this.index + 1;
    const position = tr("{word} {number} of {count}", { word: this.word, number: shown, count });
    this.slider.setAttribute("aria-valuetext", position);
    this.counter.textContent = count > 1 && this.shownIndex >= 0 ? position : ""; // of the picture, which comes later
    const hasWindow = picture && (picture.windowing !== EIGHT_BIT || this.window);
    this.windowed.textContent = hasWindow ? `${this.shownWindow.map((value, index) => `${"CW"[index]} ${number(rounded(value))}`).join(" · ")}` : "";
    this.dataset.tool = this.tools.includes(this.tool) ? this.tool : "zoom";
    this.classList.toggle("scrolls", count > 1 || this.scale > 1 || !["zoom"].includes(this.dataset.tool));
    this.strip.draw();
    const label = this.getAttribute("label");
    this.stage.setAttribute("aria-label", [label || tr("Picture"), this.counter.textContent].filter(Boolean).join(", "));
    this.slider.setAttribute("aria-label", [tr("Slice"), label].filter(Boolean).join(": "));
  }

  static {
    for (const name of ["region", "marked", "inverted", "flipped", "overlay"]) {
      Object.defineProperty(this.prototype, name, {
        get() {
          return this.#values[name];
        },
        set(value) {
          this.#values[name] = value;
          this.redraw();
        },
      });
    }
  }
}
