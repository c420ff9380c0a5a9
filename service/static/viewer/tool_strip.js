// The signs on a picture that choose what the left button does, each with a row of choices beside it.

import { element } from "../dom.js";
import { fixed, tr } from "../translate.js";
import { PRESETS } from "../window_presets.js";

const SIGNS = {
  window: ["◐", tr("Window"), "D"],
  zoom: ["⌕", tr("Zoom and move"), "Z"],
  measure: ["↔", tr("Measure"), "M"],
  region: ["▭", tr("Region"), "C"],
};

function button(text, onClick, title = "") {
  const made = Object.assign(element("button", "", text), { type: "button", title });
  made.addEventListener("click", onClick);
  return made;
}

export class ToolStrip {
  #open = false;

  constructor(viewer) {
    this.viewer = viewer;
    this.signs = element("div", "viewer-signs");
    this.row = element("div", "viewer-row");
    this.row.hidden = true;
    this.node = element("div", "viewer-strip", this.signs, this.row);
    this.node.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#open) return;
      event.stopPropagation();
      event.preventDefault();
      this.close();
      viewer.stage.focus();
    });
  }

  /** Show a sign for each tool of the viewer. */
  show() {
    const made = this.viewer.tools.filter((name) => SIGNS[name]).map((name) => {
      const [sign, title, key] = SIGNS[name];
      const choice = button(sign, () => this.choose(name), `${title} (${key})`);
      choice.setAttribute("aria-label", title);
      choice.dataset.tool = name;
      return choice;
    });
    this.signs.replaceChildren(...made);
    this.node.hidden = !made.length;
    this.signs.setAttribute("role", "group");
    this.signs.setAttribute("aria-label", tr("Tools for the picture"));
    this.draw();
  }

  /** Give a tool to the pointer and open its row; again, close the row. */
  choose(name) {
    this.#open = this.viewer.tool !== name || !this.#open;
    this.viewer.tool = name;
    this.viewer.chosen = null;
    this.#fill();
    this.draw();
    this.viewer.redraw();
  }

  /** Give a tool to the pointer, and the focus to its row. */
  openRow(name) {
    this.#open = false;
    this.choose(name);
    (this.row.querySelector("input") ?? this.row.querySelector("button")).focus();
  }

  close() {
    this.#open = false;
    this.draw();
  }

  #fill() {
    const { viewer } = this;
    const rows = { window: () => this.#windowRow(), zoom: () => this.#zoomRow(), measure: () => this.#measureRow(), region: () => this.#regionRow() };
    this.row.replaceChildren(...rows[viewer.tool]());
    this.row.setAttribute("role", "group");
    this.row.setAttribute("aria-label", SIGNS[viewer.tool][1]);
  }

  #windowRow() {
    const { viewer } = this;
    const presets = viewer.picture?.unit === "HU" ? PRESETS.map(({ name, window }) => button(name, () => viewer.changeWindow(window))) : [];
    const number = (index, name) => {
      const input = Object.assign(element("input", ""), { type: "number", step: "any" });
      input.setAttribute("aria-label", name);
      input.dataset.part = index;
      input.addEventListener("change", () => {
        const window = [...viewer.shownWindow];
        window[index] = index ? Math.max(input.valueAsNumber, 1e-6) : input.valueAsNumber;
        if (window.every(Number.isFinite)) viewer.changeWindow(window);
      });
      return input;
    };
    const invert = button(tr("Invert"), () => ((viewer.inverted = !viewer.inverted), this.draw()), "V");
    invert.dataset.state = "inverted";
    return [...presets, button(tr("Default"), () => viewer.changeWindow(null)), number(0, tr("Center")), number(1, tr("Width")), invert];
  }

  #zoomRow() {
    const { viewer } = this;
    const signed = (sign, name, onClick) => {
      const made = button(sign, onClick);
      made.setAttribute("aria-label", name);
      return made;
    };
    const scale = element("output", "");
    scale.dataset.scale = "";
    return [
      signed("−", tr("Zoom out"), () => viewer.zoomBy(0.8)),
      scale,
      signed("+", tr("Zoom in"), () => viewer.zoomBy(1.25)),
      button(tr("Fit"), () => viewer.reset(), "0"),
      button("1:1", () => viewer.actualSize(), tr("A pixel of the picture on a pixel of the screen")),
    ];
  }

  #measureRow() {
    const { viewer } = this;
    const kinds = [["length", tr("Length")], ["ellipse", tr("Ellipse")]].map(([kind, name]) => {
      const made = button(name, () => {
        viewer.shapeKind = kind;
        this.draw();
      });
      made.dataset.kind = kind;
      return made;
    });
    return [...kinds, button(tr("Remove all"), () => ((viewer.chosen = null), (viewer.shapes = [])))];
  }

  #regionRow() {
    const { viewer } = this;
    return [button(tr("Choose with keys"), () => viewer.beginRegion(), tr("Region: arrow keys move it, with Shift they resize it, Enter searches with it, Escape cancels")), button(tr("Whole image"), () => viewer.selectRegion(null))];
  }

  /** Show which tool is chosen, and what its row says. */
  draw() {
    const { viewer } = this;
    for (const sign of this.signs.children) {
      const isChosen = sign.dataset.tool === viewer.tool;
      sign.setAttribute("aria-pressed", String(isChosen));
      sign.setAttribute("aria-expanded", String(isChosen && this.#open));
    }
    this.row.hidden = !this.#open || !viewer.picture;
    if (this.row.hidden) return;
    for (const input of this.row.querySelectorAll("input")) input.value = Number(viewer.shownWindow[input.dataset.part].toPrecision(5));
    for (const output of this.row.querySelectorAll("[data-scale]")) output.textContent = tr("{number} %", { number: fixed(viewer.scale * 100, 0) });
    for (const kind of this.row.querySelectorAll("[data-kind]")) kind.setAttribute("aria-pressed", String(kind.dataset.kind === viewer.shapeKind));
    this.row.querySelector("[data-state]")?.setAttribute("aria-pressed", String(viewer.inverted));
  }
}
