// The canvas of the map: which part is in sight, and drawing it.

import * as cameras from "./camera.js";
import { createPlainPoints } from "./draw_2d.js";
import { createGlPoints } from "./draw_gl.js";
import { drawMarks } from "./draw_marks.js";

export class MapView {
  marks = { query: null, hits: [], current: null, outline: [], cross: false };
  size = { width: 1, height: 1 };
  count = 0;
  #camera = null; // null: the whole map
  #scheduled = false;

  /** onMove(): another part is in sight. */
  constructor(points, overlay, onMove = () => {}) {
    Object.assign(this, { canvas: points, overlay, onMove });
    this.points = createGlPoints(points) ?? createPlainPoints(points);
    new ResizeObserver(() => this.#resize()).observe(overlay);
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  get camera() {
    return this.#camera ?? cameras.fitted(this.size);
  }

  set camera(camera) {
    this.#camera = camera;
    this.draw();
    this.onMove();
  }

  #resize() {
    const { width, height } = this.overlay.getBoundingClientRect();
    this.size = { width: Math.max(1, width), height: Math.max(1, height) };
    this.ratio = devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.round(this.size.width * this.ratio);
      canvas.height = Math.round(this.size.height * this.ratio);
    }
    this.drawNow();
  }

  setPoints(x, y) {
    this.count = x.length;
    this.points.setPoints(x, y);
    this.draw();
  }

  setLooks(bytes) {
    this.points.setLooks(bytes);
    this.draw();
  }

  /** Draw in the next frame. */
  draw() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.#scheduled = false;
    if (!this.ratio) return; // not measured yet
    const { camera, size, ratio, marks } = this;
    this.points.draw(camera, size, cameras.pointSize(camera, size, this.count), ratio);
    const style = getComputedStyle(this.overlay.parentElement);
    drawMarks(this.overlay, camera, size, ratio, marks, {
      ink: style.color,
      ground: style.backgroundColor,
      accent: style.outlineColor,
    });
  }

  pan(dx, dy) {
    this.camera = cameras.moved(this.camera, dx, dy);
  }

  zoom(factor, px, py) {
    this.camera = cameras.zoomed(this.camera, this.size, factor, px, py);
  }

  showAll() {
    this.camera = null;
  }

  /** The place of a pixel of the canvas. */
  placeOf(px, py) {
    return cameras.toPlace(this.camera, this.size, px, py);
  }

  /** A distance in pixels as one between places. */
  reach(pixels) {
    return pixels / this.camera.scale;
  }
}
