// The window of a DICOM image: sliders for center and width, presets for CT, and dragging with the right button.

import { byId, element } from "./dom.js";
import { fixed } from "./translate.js";
import { installWindowDrag } from "./window_drag.js";
import { PRESETS, takesPresets } from "./window_presets.js";

const RENDER_DELAY = 80; // ms between two renderings while a slider moves
const STEPS = 512; // of a slider with fractional values

const digits = (step) => (step < 1 ? Math.min(6, Math.ceil(-Math.log10(step))) : 0);

/**
 * The sliders. onInput([center, width]) is called while one moves, onChange(window) when it is released; the window
 * is null for that of the file.
 */
export class Windowing {
  constructor(onInput, onChange) {
    Object.assign(this, { onInput, onChange, timer: null, settings: null });
    for (const id of ["center", "width"]) {
      byId(id).addEventListener("input", () => this.handleInput());
      byId(id).addEventListener("change", () => this.handleChange(this.value()));
    }
    byId("as-filed").addEventListener("click", () => this.onChange(null));
    byId("presets")?.append(...PRESETS.map(({ name }, index) => this.presetButton(name, index)));
    if (!byId("drop")) return; // the annotation page, whose pictures are dragged to move them
    installWindowDrag(byId("drop"), {
      settings: () => this.settings && { ...this.settings, window: this.value() },
      onMove: (window) => {
        this.showWindow(window);
        this.handleInput(window);
      },
      onEnd: (window) => this.handleChange(window),
    });
  }

  presetButton(name, index) {
    const button = element("button", "button small", name);
    button.type = "button";
    button.addEventListener("click", () => this.choosePreset(index));
    return button;
  }

  /** Use a preset if the values are Hounsfield units. */
  choosePreset(index) {
    if (byId("presets")?.hidden === false && this.settings) this.handleChange(PRESETS[index].window);
  }

  value() {
    return [Number(byId("center").value), Number(byId("width").value)];
  }

  handleInput(window = this.value()) {
    this.showValues();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.onInput(window), RENDER_DELAY);
  }

  handleChange(window) {
    clearTimeout(this.timer);
    this.onChange(window);
  }

  showWindow([center, width]) {
    byId("center").value = center;
    byId("width").value = width;
  }

  showValues() {
    for (const id of ["center", "width"]) {
      byId(`${id}-shown`).textContent = fixed(Number(byId(id).value), digits(Number(byId(id).step)));
    }
  }

  /** Set the sliders to {window: [center, width], values: [min, max]} of an image of a modality; hide them for null. */
  set(settings, modality = "") {
    this.settings = settings;
    byId("windowing").hidden = !settings;
    if (byId("presets")) byId("presets").hidden = !takesPresets({ windowing: settings, modality });
    if (!settings) return;
    const [center, width] = settings.window;
    const [min, max] = settings.values;
    const span = Math.max(max - min, 0) || 1;
    const step = span >= 32 ? 1 : span / STEPS;
    const down = (value) => Math.floor(value / step) * step;
    const up = (value) => Math.ceil(value / step) * step;
    Object.assign(byId("center"), { step, min: down(Math.min(min, center)), max: up(Math.max(max, center)) });
    Object.assign(byId("width"), { step, min: Math.min(step, width), max: up(Math.max(span * 1.5, width)) });
    this.showWindow([center, width]);
    this.showValues();
  }
}
