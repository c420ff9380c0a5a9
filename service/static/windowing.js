// The window of a DICOM image: two sliders, center and width.

const at = (id) => document.getElementById(id);
const PATIENCE = 80; // ms between two renderings while a slider is drawn
const STEPS = 512; // of a slider, where the values are no whole numbers

const digits = (step) => (step < 1 ? Math.min(6, Math.ceil(-Math.log10(step))) : 0);

/** The sliders; seen([center, width]) is called while they move, done(window) when they rest, null for the file's own. */
export class Windowing {
  constructor(seen, done) {
    Object.assign(this, { seen, done, timer: null });
    for (const id of ["center", "width"]) {
      at(id).addEventListener("input", () => this.moved());
      at(id).addEventListener("change", () => {
        clearTimeout(this.timer);
        this.done(this.value());
      });
    }
    at("as-filed").addEventListener("click", () => this.done(null));
  }

  value() {
    return [Number(at("center").value), Number(at("width").value)];
  }

  moved() {
    this.tell();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.seen(this.value()), PATIENCE);
  }

  tell() {
    for (const id of ["center", "width"]) {
      at(`${id}-shown`).textContent = Number(at(id).value).toFixed(digits(Number(at(id).step)));
    }
  }

  /** Stand where `facts` {window: [center, width], values: [least, greatest]} say; away where there are none. */
  set(facts) {
    at("windowing").hidden = !facts;
    if (!facts) return;
    const [center, width] = facts.window;
    const [least, greatest] = facts.values;
    const span = Math.max(greatest - least, 0) || 1;
    const step = span >= 32 ? 1 : span / STEPS;
    const down = (value) => Math.floor(value / step) * step;
    const up = (value) => Math.ceil(value / step) * step;
    Object.assign(at("center"), { step, min: down(Math.min(least, center)), max: up(Math.max(greatest, center)) });
    Object.assign(at("width"), { step, min: Math.min(step, width), max: up(Math.max(span * 1.5, width)) });
    at("center").value = center;
    at("width").value = width;
    this.tell();
  }
}
