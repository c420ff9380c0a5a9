// The element <cbir-viewer>: a picture, or a stack of them, to window, zoom, measure and select a region in.
//
// PROPERTIES
//   source     {kind: "file", file, frame?, collection?}; a file of many frames becomes a stack by itself
//              {kind: "image", collection, id}            collection "" or absent: the default one
//              {kind: "stack", collection?, slices: [{id | file | address, frame?, position_mm?, stack?, valued?}], index, word?}
//              {kind: "address", address}                 a picture of another server, which takes ?window=CENTER,WIDTH
//              each may have a window [center, width] to begin with. null: nothing. A source with the same pictures only moves to its index. position_mm: along the normal of the
//              parallel slices `stack`; valued: known to have values of 16 bits; word: "Slice" if absent.
//   tools      ["window", "zoom", "measure", "region"] or some of these, on the picture; attribute tools="window zoom"; none if absent
//   tool       the one that the left button and a finger have; "zoom" at first
//   linked     name of a group, or "": its viewers move slices (by mm from where they were linked; by parts of the stack where
//              positions are unknown: linkedBy is "mm", "fraction" or null), windows and zooms together
//   follows    {slices, window, zoom}, all true at first: what of the group this viewer gives and takes
//   region     {x, y, width, height} in parts of the picture, or null; taken away when another slice is shown
//   marked     {x, y, width, height} in parts of the picture: framed, not to be changed; or null
//   window     [center, width] in the values of the picture (HU for CT, else 0 to 255), null for that of the file
//   inverted, flipped    true or false
//   overlay    a canvas drawn over the picture, stretched to it, or null; overlayOpacity from 0 to 1
//   label      name for screen readers; attribute label="..."
//   Attribute keyless: keys are the page's own.
//   Attribute wheel-zooms: the wheel zooms a picture that is no stack (else the page scrolls).
//   Read only: index, start (that of the source), count, slice (of source.slices, that is shown), picture {size, spacing {rows, columns}, modality, unit, frames,
//   windowing: {window, values}, rendered}, linkedBy, scale.
// METHODS  goTo(index), reset() (fit), zoomBy(factor), actualSize(), press(event): handle a key as if the picture had the focus, true if it was one
// EVENTS (bubbling CustomEvents; detail in braces)
//   cbir-ready {picture}       a source's first picture is shown         cbir-failed {error}   nothing can be shown, which the viewer says
//   cbir-slice {index, count, slice, byUser}   another slice is shown    cbir-window {window, picture}
//   cbir-region {x, y, width, height} or null  by the user               cbir-zoom {scale}     cbir-link {linkedBy}
// FUNCTIONS of picture_source.js
//   seriesOf({collection, id}, record, signal)   the stack of an image's series as a source, or null
//   keepValues({file, frame?}, query.pixels)     values that came with the answer to a search: the file is not sent again
//   loadPicture(slice)                           loads ahead
// The style is viewer.css. Measurements stay with their picture, also when another viewer shows it.

import { ApiError } from "../api.js";
import { element } from "../dom.js";
import { latest } from "../latest.js";
import { number, tr } from "../translate.js";
import { Film } from "./film.js";
import { installGestures } from "./gestures.js";
import * as groups from "./groups.js";
import { handleKey } from "./keys.js";
import { EIGHT_BIT, tidy } from "./levels.js";
import { framesOf, keyOf, loadPicture, loadValues, slicesOf } from "./picture_source.js";
import { actualScale, FITTED, layoutOf, moved, zoomed } from "./place.js";
import { drawShapes } from "./shapes.js";
import { slicesAhead, within } from "./stacks.js";
import { ToolStrip } from "./tool_strip.js";

const RENDER_DELAY = 80; // ms from the last change of a window to its rendering by the service
const measures = new Map(); // lists of shapes by the key of their picture

export class CbirViewer extends HTMLElement {
  static observedAttributes = ["tools", "label"];

  slices = [];
  index = 0; // that is wanted
  start = 0; // the index of the source
  anchor = 0; // that the others of the group were at their anchors with
  shownIndex = -1; // whose picture is shown
  picture = null;
  place = FITTED;
  tool = "zoom";
  shapeKind = "length"; // that measuring draws
  chosen = null; // the shape that keys move
  follows = { slices: true, window: true, zoom: true };
  overlayOpacity = 1;
  #source = null;
  #word = "";
  #linked = "";
  #values = { window: null, region: null, marked: null, inverted: false, flipped: false, overlay: null };
  #valued = false; // whether the last picture had values, so that those of the next slice are asked for at once
  #timer = null;
  #scheduled = false;
  #observer = null;
  #load = latest(() => this.#show());

  connectedCallback() {
    if (!this.stage) this.#build();
    this.#observer = new ResizeObserver(() => this.redraw());
    this.#observer.observe(this.stage);
    groups.join(this, this.#linked);
    this.redraw();
  }

  disconnectedCallback() {
    this.#observer.disconnect();
    groups.leave(this, this.#linked);
  }

  #build() {
    this.film = new Film();
    this.drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.drawing.setAttribute("aria-hidden", "true");
    this.note = element("p", "viewer-note");
    this.counter = element("output", "viewer-counter");
    this.windowed = element("output", "viewer-window");
    this.stage = element("div", "viewer-stage", this.film.canvas, this.drawing, this.note, element("div", "viewer-facts", this.windowed, this.counter));
    this.stage.tabIndex = this.hasAttribute("keyless") ? -1 : 0;
    this.stage.setAttribute("role", "group");
    this.measured = element("output", "viewer-measured unseen");
    this.slider = Object.assign(element("input", "viewer-slider"), { type: "range", min: 1 });
    this.slider.addEventListener("input", () => this.goTo(this.slider.valueAsNumber - 1, true));
    this.strip = new ToolStrip(this);
    this.append(this.stage, this.strip.node, this.slider, this.measured);
    if (!this.hasAttribute("keyless")) this.stage.addEventListener("keydown", (event) => this.press(event));
    installGestures(this);
    this.strip.show();
    this.#describe();
  }

  attributeChangedCallback(name) {
    if (name === "tools") this.strip?.show();
    else if (this.stage) this.#describe();
  }

  get tools() {
    return (this.getAttribute("tools") ?? "").split(" ").filter(Boolean);
  }

  set tools(names) {
    this.setAttribute("tools", names.join(" "));
  }

  get label() {
    return this.getAttribute("label") ?? "";
  }

  set label(text) {
    this.setAttribute("label", text);
  }

  get source() {
    return this.#source;
  }

  set source(source) {
    const { slices, index } = slicesOf(source);
    const isSame = this.#source && source && slices.length === slicesOf(this.#source).slices.length && slices.every((slice, at) => keyOf(slice) === keyOf(slicesOf(this.#source).slices[at]));
    this.#source = source;
    if (isSame) return this.goTo(source.kind === "stack" ? index : this.index);
    if (this.picture && this.slice && slices[index] && keyOf(this.slice) === keyOf(slices[index])) return this.#widen(slices, index);
    Object.assign(this, { slices, index, start: index, shownIndex: -1, picture: null, place: FITTED, chosen: null });
    this.#word = source?.word ?? tr("Slice");
    this.#valued = false;
    this.#values.window = source?.window ?? null;
    this.#values.region = null;
    this.#say("");
    this.film?.clear();
    this.#load = latest(() => this.#show()); // not after a slow one of the source before
    this.link();
    this.redraw();
    if (slices.length) this.#load();
  }

  /** The picture that is shown is one of a stack, now that its slices are known: what the user has done to it stays. */
  #widen(slices, index) {
    Object.assign(this, { slices, index, start: index, shownIndex: index });
    this.#word = this.#source.word ?? tr("Slice");
    this.link();
    this.#describe();
    this.redraw();
    this.#load();
  }

  get count() {
    return this.slices.length;
  }

  get slice() {
    return this.slices[this.shownIndex] ?? null;
  }

  get scale() {
    return this.place.scale;
  }

  /** The shapes measured in the picture that is shown. */
  get shapes() {
    return (this.slice && measures.get(keyOf(this.slice))) ?? [];
  }

  set shapes(shapes) {
    measures.set(keyOf(this.slice), shapes);
    this.redraw();
  }

  // Groups

  get linked() {
    return this.#linked;
  }

  set linked(name) {
    if (name === this.#linked) return;
    groups.leave(this, this.#linked);
    this.#linked = name;
    if (this.isConnected) groups.join(this, name);
    this.link();
  }

  get linkedBy() {
    return groups.linkedBy(this);
  }

  /** Link the group at the slices that its viewers show now. */
  link() {
    groups.linkHere(this);
  }

  // Slices

  /** Show the slice at an index, and those that belong to it in the viewers of the group. */
  goTo(index, byUser = false) {
    if (!this.count || within(index, this.count) === this.index) return;
    this.#move(within(index, this.count), byUser);
    groups.followSlice(this, (other, to) => other.#move(to, byUser));
  }

  #move(index, byUser) {
    if (index === this.index || !this.count) return;
    this.index = index;
    this.byUser = byUser;
    this.#load();
  }

  async #show() {
    const [slice, { slices, index }] = [this.slices[this.index], this];
    if (!slice) return;
    const isCurrent = () => this.slices === slices;
    try {
      const valued = this.#valued || Boolean(slice.valued);
      const isRendered = this.picture ? this.picture.rendered : Boolean(slice.address);
      const picture = await loadPicture(slice, { valued, window: isRendered ? this.window : null });
      if (!isCurrent()) return;
      this.#display(picture, index);
      if (picture.rendered && !slice.address && !slice.file) {
        const values = await loadValues(slice);
        if (values && isCurrent() && this.shownIndex === index) this.#display(values, index);
      }
    } catch (error) {
      if (!isCurrent()) return;
      if (!(error instanceof ApiError)) throw error;
      this.#fail(error, index);
    }
    if (isCurrent() && this.index === index) for (const each of slicesAhead(this.slices, index)) loadPicture(each, { valued: this.#valued }).catch(() => {});
    if (isCurrent() && this.index !== index) this.#load();
  }

  #display(picture, index) {
    const [isFirst, isOther] = [this.shownIndex < 0, this.shownIndex !== index];
    Object.assign(this, { picture, shownIndex: index });
    this.#valued = Boolean(picture.stored);
    if (isOther && !isFirst) this.#values.region = this.chosen = null;
    if (isFirst && this.count === 1 && picture.frames > 1 && this.slices[0].file) {
      const at = (this.slices[0].frame ?? 1) - 1;
      Object.assign(this, { slices: framesOf(this.slices[0], picture.frames), index: at, start: at, shownIndex: at });
      this.#word = tr("Frame");
      this.link();
    }
    this.#say("");
    if (isFirst) groups.takeOver(this);
    this.strip?.draw();
    this.redraw();
    if (isFirst) this.dispatch("ready", { picture });
    if (isOther) this.dispatch("slice", { index: this.shownIndex, count: this.count, slice: this.slice, byUser: !isFirst && Boolean(this.byUser) });
  }

  #fail(error, index) {
    Object.assign(this, { picture: null, shownIndex: index });
    this.film.clear();
    this.#say(error.status === 404 || error.status === 410 ? tr("Picture no longer available") : error.title || tr("Picture not available"));
    this.redraw();
    this.dispatch("failed", { error });
  }

  #say(text) {
    if (this.note) this.note.textContent = text;
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
    this.#timer = setTimeout(this.#load, RENDER_DELAY);
  }

  /** The window that is shown, also where it is that of the file. */
  get shownWindow() {
    return this.window ?? (this.picture?.windowing ?? EIGHT_BIT).window;
  }

  /** Change the window here and in the group, null for that of the file. */
  changeWindow(window) {
    this.window = window;
    this.dispatch("window", { window: this.window, picture: this.picture });
    groups.shareWindow(this);
    this.strip.draw();
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
      each.strip.draw();
      each.redraw();
    }
    this.dispatch("zoom", { scale: place.scale });
  }

  reset() {
    this.placeAt(FITTED);
  }

  zoomBy(factor, point) {
    this.placeAt(zoomed(this.place, factor, point));
  }

  moveBy(right, down) {
    this.placeAt(moved(this.place, right, down));
  }

  actualSize() {
    if (!this.picture) return;
    const scale = actualScale(this.picture.size, this.pane, devicePixelRatio, this.aspect);
    this.placeAt(zoomed(this.place, scale / this.place.scale, [0, 0], scale));
  }

  // Region

  /** Select a region in parts of the picture, as the user. */
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

  /** Draw again before the next frame of the screen. */
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
    const position = tr("{word} {number} of {count}", { word: this.#word, number: shown, count });
    this.slider.setAttribute("aria-valuetext", position);
    this.counter.textContent = count > 1 && this.shownIndex >= 0 ? position : ""; // of the picture, which comes later
    const hasWindow = picture && (picture.windowing !== EIGHT_BIT || this.window);
    this.windowed.textContent = hasWindow ? `C ${round(this.shownWindow[0])} · W ${round(this.shownWindow[1])}` : "";
    this.dataset.tool = this.tools.includes(this.tool) ? this.tool : "zoom";
    this.classList.toggle("scrolls", count > 1 || this.scale > 1 || !["zoom"].includes(this.dataset.tool));
    this.#describe();
  }

  #describe() {
    this.stage.setAttribute("aria-label", [this.label || tr("Picture"), this.counter.textContent].filter(Boolean).join(", "));
    this.slider.setAttribute("aria-label", [tr("Slice"), this.label].filter(Boolean).join(": "));
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

const round = (value) => number(Number(value.toPrecision(Math.abs(value) >= 1000 ? 5 : 3)));

customElements.define("cbir-viewer", CbirViewer);
