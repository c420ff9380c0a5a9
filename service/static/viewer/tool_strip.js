// The signs on a picture that choose what the left button does, each with a row of choices beside it.

import { isTouched } from "../theme.js";
import { fixed, tr } from "../translate.js";
import { html, nothing, render } from "../vendor/lit.js";
import { othersOf } from "./groups.js";
import { PRESETS } from "./levels.js";

const SIGNS = {
  window: ["◐", tr("Window"), "D"],
  zoom: ["✥", tr("Zoom and move"), "Z"],
  measure: ["↔", tr("Measure"), "M"],
  region: ["▭", tr("Region"), "C"],
};
const SHAPES = [["length", tr("Length")], ["ellipse", tr("Ellipse")]];

const button = (text, act, { title = nothing, name = nothing, pressed = nothing, disabled = false } = {}) =>
  html`<button type="button" ?disabled=${disabled} title=${title} aria-label=${name} aria-pressed=${pressed} @click=${act}>${text}</button>`;

const ROWS = {
  window(viewer) {
    const digits = (index) => String(Number(viewer.shownWindow[index].toPrecision(5))); // not live: a frame drawn while somebody types leaves what is typed
    const change = (index) => ({ target }) => {
      const window = viewer.shownWindow.with(index, index ? Math.max(target.valueAsNumber, 1e-6) : target.valueAsNumber);
      if (window.every(Number.isFinite)) viewer.changeWindow(window);
      viewer.strip.draw();
      target.value = digits(index); // where it was no number
    };
    const number = (index, name) => html`<input type="number" step="any" title=${name} aria-label=${name} .value=${digits(index)} @change=${change(index)} />`;
    return html`${viewer.picture.unit === "HU" ? PRESETS.map(({ name, window }) => button(name, () => viewer.changeWindow(window))) : nothing}
      ${button(tr("Default"), () => viewer.changeWindow(null))}${number(0, tr("Center"))}${number(1, tr("Width"))}
      ${button(tr("Invert"), () => (viewer.inverted = !viewer.inverted), { title: "V", pressed: String(viewer.inverted) })}`;
  },
  zoom: (viewer) => html`${button("−", () => viewer.zoomBy(0.8), { name: tr("Zoom out") })}<output>${tr("{number} %", { number: fixed(viewer.scale * 100, 0) })}</output>
    ${button("+", () => viewer.zoomBy(1.25), { name: tr("Zoom in") })}${button(tr("Fit"), () => viewer.fit())}
    ${button("1:1", () => viewer.actualSize(), { title: tr("A pixel of the picture on a pixel of the screen") })}`,
  measure: (viewer) => html`${SHAPES.map(([shapeKind, name]) => button(name, () => Object.assign(viewer, { shapeKind }).redraw(), { pressed: String(shapeKind === viewer.shapeKind) }))}
    ${button(tr("Remove all"), () => Object.assign(viewer, { chosen: null, shapes: [] }))}`,
  region: (viewer) => html`${isTouched() ? nothing : button(tr("Choose with keys"), () => viewer.beginRegion(), { title: tr("Region: arrow keys move it, with Shift they resize it, Enter searches with it, Escape cancels") })}
    ${button(tr("Whole image"), () => viewer.selectRegion(null), { disabled: !viewer.region })}`,
};

export class ToolStrip {
  #open = false;

  constructor(viewer) {
    this.viewer = viewer;
    this.node = Object.assign(document.createElement("div"), { className: "viewer-strip" });
    this.node.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#open) return;
      event.stopPropagation();
      event.preventDefault();
      this.close();
      viewer.stage.focus();
    });
  }

  /** Give a tool to the pointer and open its row; again, close the row. */
  choose(name) {
    this.#open = this.viewer.tool !== name || !this.#open;
    for (const each of othersOf(this.viewer, "zoom")) Object.assign(each, { tool: name, chosen: null }).strip.close();
    Object.assign(this.viewer, { tool: name, chosen: null }).redraw();
    this.draw();
  }

  /** Give a tool to the pointer, and the focus to its row. */
  openRow(name) {
    this.#open = false;
    this.choose(name);
    (this.node.querySelector("input") ?? this.node.querySelector(".viewer-row button"))?.focus();
  }

  close() {
    this.#open = false;
    this.viewer.redraw();
  }

  /** Show a sign for each tool of the viewer, which of them is chosen, and its row; and one that resets what was changed. */
  draw() {
    const { viewer } = this;
    const names = viewer.tools.filter((name) => SIGNS[name]);
    const sign = (name) => {
      const [text, title, key] = SIGNS[name];
      const isChosen = name === viewer.tool;
      return html`<button type="button" title=${`${title} (${key})`} aria-label=${title} data-tool=${name} aria-pressed=${String(isChosen)} aria-expanded=${String(isChosen && this.#open)} @click=${() => this.choose(name)}>${text}</button>`;
    };
    const reset = () => {
      viewer.reset();
      viewer.stage.focus({ preventScroll: true }); // the sign goes
    };
    const isChanged = viewer.picture && (viewer.window || viewer.inverted || viewer.scale !== 1);
    const isOpen = this.#open && viewer.picture && names.includes(viewer.tool);
    this.node.hidden = !names.length;
    render(html`<div class="viewer-signs" role="group" aria-label=${tr("Tools for the picture")}>${names.map(sign)}
        ${viewer.chosen && viewer.chosen !== "region" ? button("🗑", () => Object.assign(viewer, { shapes: viewer.shapes.filter((each) => each !== viewer.chosen), chosen: null }), { title: tr("Remove this measurement"), name: tr("Remove this measurement") }) : nothing}
        ${isChanged ? button("↺", reset, { title: tr("Reset window and zoom"), name: tr("Reset") }) : nothing}</div>
      ${isOpen ? html`<div class="viewer-row" role="group" aria-label=${SIGNS[viewer.tool][1]}>${ROWS[viewer.tool](viewer)}</div>` : nothing}`, this.node);
  }
}
