// A magnifier over pictures, at the same place in each pane.

import { element } from "./dom.js";
import { contentShift, FACTOR, movedPlace, SIDE } from "./lens_place.js";

/**
 * Enlarges what is under the pointer in `area` while `button` is pressed. images: each of them fills its pane;
 * paneOf(event): the pane under the pointer.
 */
export class Lens {
  constructor({ area, images, button, paneOf = (event) => event.target.closest(".pane") }) {
    Object.assign(this, { area, images, button, paneOf, place: [0.5, 0.5] });
    button.addEventListener("click", () => this.toggle());
    area.addEventListener("pointermove", (event) => this.isOn && this.follow(event));
    area.addEventListener("pointerdown", (event) => this.down(event), true); // a finger moves the magnifier, not the picture
    for (const image of images) image.addEventListener("load", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(area);
  }

  get isOn() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  toggle(on = !this.isOn) {
    this.button.setAttribute("aria-pressed", String(on));
    this.area.classList.toggle("magnified", on);
    this.draw();
  }

  down(event) {
    const pane = this.paneOf(event);
    if (!this.isOn || !pane || event.pointerType === "mouse") return;
    event.preventDefault();
    event.stopPropagation();
    pane.setPointerCapture(event.pointerId);
    this.follow(event);
  }

  follow(event) {
    const pane = this.paneOf(event);
    if (!pane) return;
    const { left, top, width, height } = pane.getBoundingClientRect();
    this.place = [(event.clientX - left) / width, (event.clientY - top) / height];
    this.draw();
  }

  /** Move by an arrow key; returns whether the key was one and the magnifier is on. */
  key(event) {
    const place = this.isOn && movedPlace(event.key, this.place, event.shiftKey);
    if (!place) return false;
    this.place = place;
    this.draw();
    return true;
  }

  /** Draw it again, when the pictures have changed or moved. */
  draw() {
    for (const old of this.area.querySelectorAll(".lens")) old.remove();
    if (!this.isOn) return;
    for (const image of this.images) {
      if (!image.hidden && image.getAttribute("src")) image.parentElement.append(this.glass(image));
    }
  }

  glass(image) {
    const { clientWidth: width, clientHeight: height } = image.parentElement;
    const [x, y] = contentShift(this.place, { width, height });
    const copy = element("img");
    copy.src = image.src;
    copy.alt = "";
    copy.style.transform = image.style.transform;
    const content = element("div", "lens-content", copy);
    Object.assign(content.style, { width: `${width}px`, height: `${height}px`, transform: `translate(${x}px, ${y}px) scale(${FACTOR})` });
    const glass = element("div", "lens", content);
    glass.setAttribute("aria-hidden", "true");
    Object.assign(glass.style, {
      width: `${SIDE}px`,
      height: `${SIDE}px`,
      left: `${this.place[0] * width - SIDE / 2}px`,
      top: `${this.place[1] * height - SIDE / 2}px`,
    });
    return glass;
  }
}
