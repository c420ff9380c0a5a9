// Sliders for the window of a DICOM image: center and width.

import { byId } from "./dom.js";

const RENDER_DELAY = 80; // ms between two renderings while a slider moves
const STEPS = 512; // of a slider with fractional values

const digits = (step) => (step < 1 ? Math.min(6, Math.ceil(-Math.log10(step))) : 0);

/**
 * The sliders. onInput([center, width]) is called while one moves, onChange(window) when it is released; the window
 * is null for that of the file.
 */
export class Windowing {
  constructor(onInput, onChange) {
    Object.assign(this, { onInput, onChange, timer: null });
    for (const id of ["center", "width"]) {
      byId(id).addEventListener("input", () => this.handleInput());
      byId(id).addEventListener("change", () => {
        clearTimeout(this.timer);
        this.onChange(this.value());
      });
    }
    byId("as-filed").addEventListener("click", () => this.onChange(null));
  }

  value() {
    return [Number(byId("center").value), Number(byId("width").value)];
  }

  handleInput() {
    this.showValues();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.onInput(this.value()), RENDER_DELAY);
  }

  showValues() {
    for (const id of ["center", "width"]) {
      byId(`${id}-shown`).textContent = Number(byId(id).value).toFixed(digits(Number(byId(id).step)));
    }
  }

  /** Set the sliders to {window: [center, width], values: [min, max]}; hide them for null. */
  set(settings) {
    byId("windowing").hidden = !settings;
    if (!settings) return;
    const [center, width] = settings.window;
    const [min, max] = settings.values;
    const span = Math.max(max - min, 0) || 1;
    const step = span >= 32 ? 1 : span / STEPS;
    const down = (value) => Math.floor(value / step) * step;
    const up = (value) => Math.ceil(value / step) * step;
    Object.assign(byId("center"), { step, min: down(Math.min(min, center)), max: up(Math.max(max, center)) });
    Object.assign(byId("width"), { step, min: Math.min(step, width), max: up(Math.max(span * 1.5, width)) });
    byId("center").value = center;
    byId("width").value = width;
    this.showValues();
  }
}
