// The element <cbir-viewer>: a picture, or a stack of them, to window, zoom, measure and select a region in.
//
// PROPERTIES
//   source     {kind: "file", file, frame?, collection?}; a file of many frames becomes a stack by itself
//              {kind: "image", collection, id, series?}   collection "" or absent: the default one; series true: a stack, once the slices of its series are known
//              {kind: "stack", collection?, slices: [{id | file | address, frame?, position_mm?, stack?, valued?}], index, word?}
//              {kind: "address", address}                 a picture of another server, which takes ?window=CENTER,WIDTH
//              each may have a window [center, width] to begin with. null: nothing. A source with the same pictures only moves to its index. position_mm: along the normal of the
//              parallel slices `stack`; valued: known to have values of 16 bits; word: "Slice" if absent.
//   tool       the one that the left button and a finger have; "zoom" at first
//   linked     name of a group, or "": its viewers move slices (by mm from where they were linked; by parts of the stack where
//              positions are unknown: linkedBy is "mm", "fraction" or null), windows and zooms together
//   follows    {slices, window, zoom}, all true at first: what of the group this viewer gives and takes
//   region     {x, y, width, height} in parts of the picture, or null; taken away when another slice is shown
//   marked     {x, y, width, height} in parts of the picture: framed, not to be changed; or null
//   window     [center, width] in the values of the picture (HU for CT, else 0 to 255), null for that of the file
//   inverted, flipped    true or false
//   overlay    a canvas drawn over the picture, stretched to it, or null; overlayOpacity from 0 to 1
//   Attributes tools="window zoom measure region", or some of these, on the picture; label="...": name for screen readers.
//   Attribute keyless: keys are the page's own.
//   Attribute wheel-zooms: the wheel zooms a picture that is no stack (else the page scrolls).
//   Read only: index, count, slice (of source.slices, that is shown), picture {size, spacing {rows, columns}, modality, unit, frames,
//   windowing: {window, values}, rendered}, linkedBy, scale.
// METHODS  goTo(index), fit(), reset() (window and zoom), zoomBy(factor), actualSize(), press(event): handle a key as if the picture had the focus, true if it was one
// EVENTS (bubbling CustomEvents; detail in braces)
//   cbir-ready {picture}       a source's first picture is shown         cbir-failed {error}   nothing can be shown, which the viewer says
//   cbir-slice {index, count, slice, byUser}   another slice is shown    cbir-window {window, picture}
//   cbir-region {x, y, width, height} or null  by the user               cbir-zoom {scale}     cbir-link {linkedBy}
// The style is viewer.css. Measurements stay with their picture, also when another viewer shows it.

import { Problem } from "../problems.js";
import { tr } from "../translate.js";
import * as groups from "./groups.js";
import { isScaled } from "./levels.js";
import { framesOf, keyOf, latest, loadPicture, loadValues, seriesOf, slicesOf } from "./picture_source.js";
import { PictureView } from "./picture_view.js";

export class CbirViewer extends PictureView {
  slices = [];
  index = 0; // that is wanted
  anchor = 0; // that the others of the group were at their anchors with
  shownIndex = -1; // whose picture is shown
  isAlone = false; // one picture that is known to be of no series
  leads = false; // others of its group begin with the slice that belongs to its own
  follows = { slices: true, window: true, zoom: true };
  #source = null;
  #linked = "";
  #valued = false; // whether the last picture had values, so that those of the next slice are asked for at once
  load = latest(() => this.#show()); // the slice that is wanted, in the window of now

  connectedCallback() {
    super.connectedCallback();
    groups.join(this, this.#linked);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    groups.leave(this, this.#linked);
  }

  get source() {
    return this.#source;
  }

  set source(source) {
    const { slices, index } = slicesOf(source);
    const isLeft = source?.series && this.slice && keyOf(this.slice) !== keyOf(slices[0]); // for another slice of its series
    const isSame = !isLeft && this.#source && source && slices.length === slicesOf(this.#source).slices.length && slices.every((slice, at) => keyOf(slice) === keyOf(slicesOf(this.#source).slices[at]));
    this.#source = source;
    if (isSame) return this.goTo(source.kind === "stack" ? index : this.index);
    this.isAlone = slices.length === 1 && !source.series;
    if (source?.series) this.#loadSeries(source, slices);
    if (this.picture && this.slice && slices[index] && keyOf(this.slice) === keyOf(slices[index])) return this.#widen(slices, index);
    Object.assign(this, { slices, index, shownIndex: -1, word: source?.word ?? tr("Slice") });
    this.empty(source?.window);
    this.#valued = false;
    this.load = latest(() => this.#show()); // not after a slow one of the source before
    this.link();
    this.redraw();
    if (slices.length) this.load();
  }

  async #loadSeries(source, slices) {
    const stack = await seriesOf(source).catch(() => undefined); // without it, it stays one picture
    if (this.slices !== slices) return;
    this.isAlone = stack === null;
    return stack ? this.#widen(stack.slices, stack.index) : this.dispatch("link", { linkedBy: this.linkedBy });
  }

  /** The picture that is shown is one of a stack, now that its slices are known: what the user has done to it stays. */
  #widen(slices, index) {
    Object.assign(this, { slices, index, shownIndex: this.picture ? index : -1, word: this.#source.word ?? tr("Slice") });
    this.link();
    this.redraw();
    this.load();
  }

  get count() {
    return this.slices.length;
  }

  get slice() {
    return this.slices[this.shownIndex] ?? null;
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

  link = () => groups.linkHere(this);

  // Slices

  /** Show the slice at an index, and those that belong to it in the viewers of the group. */
  goTo(index, byUser = false) {
    if (!this.count || groups.indexWithin(index, this.count) === this.index) return;
    this.#move(groups.indexWithin(index, this.count), byUser);
    groups.followSlice(this, (other, to) => other.#move(to, byUser));
  }

  #move(index, byUser) {
    if (index !== this.index && this.count) Object.assign(this, { index, byUser }).load();
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
      if (!(error instanceof Problem)) throw error;
      this.#fail(error, index);
    }
    if (isCurrent() && this.index === index) for (const each of groups.slicesAhead(this.slices, index)) loadPicture(each, { valued: this.#valued }).catch(() => {});
    if (isCurrent() && this.index !== index) this.load();
  }

  #display(picture, index) {
    const [isFirst, isOther] = [this.shownIndex < 0, this.shownIndex !== index];
    Object.assign(this, { picture, shownIndex: index });
    this.#valued = Boolean(picture.stored);
    if (isScaled(picture)) this.firstWindow ??= picture.windowing.window;
    if (isOther && !isFirst) this.region = this.chosen = null;
    if (isFirst && this.count === 1 && picture.frames > 1 && this.slices[0].file) {
      const at = (this.slices[0].frame ?? 1) - 1;
      Object.assign(this, { slices: framesOf(this.slices[0], picture.frames), index: at, shownIndex: at, word: tr("Frame") });
      this.link();
    }
    this.say("");
    if (isFirst) groups.takeOver(this);
    for (const each of [this, ...groups.othersOf(this, "window")]) each.redraw();
    if (isFirst) this.dispatch("ready", { picture });
    if (isOther) this.dispatch("slice", { index: this.shownIndex, count: this.count, slice: this.slice, byUser: !isFirst && Boolean(this.byUser) });
  }

  #fail(error, index) {
    Object.assign(this, { picture: null, shownIndex: index });
    this.film.clear();
    this.say(error.status === 404 || error.status === 410 ? tr("Picture no longer available") : error.title || tr("Picture not available"));
    this.redraw();
    this.dispatch("failed", { error });
  }
}

customElements.define("cbir-viewer", CbirViewer);
