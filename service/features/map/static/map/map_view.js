// The canvas of the map: which part is in sight, and drawing it.

import * as cameras from "./camera.js";
import { createPlainPoints } from "./draw_2d.js";
import { createGlPoints } from "./draw_gl.js";
import { drawMarks } from "./draw_marks.js";

const REST_MS = 150; // without a movement, then the points are drawn again

export class MapView {
  marks = { query: null, hits: [], current: null, outline: [] };
  size = { width: 1, height: 1 };
  count = 0;
  #camera = null; // null: the whole map
  #scheduled = false;
  #drawn = null; // the camera for which the points were drawn; null: they have changed
  #rest = 0;

  /** onMove(): another part is in sight. */
  constructor(points, overlay, onMove) {
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
    const box = this.overlay.getBoundingClientRect();
    this.size = { width: Math.max(1, box.width), height: Math.max(1, box.height) };
    this.ratio = devicePixelRatio || 1;
    for (const [canvas, { width, height }] of [[this.canvas, cameras.pictureSize(this.size)], [this.overlay, this.size]]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.#drawn = null;
    this.drawNow();
  }

  setPoints(x, y) {
    this.count = x.length;
    this.points.setPoints(x, y);
    this.#drawn = null;
    this.draw();
  }

  setLooks(bytes) {
    this.points.setLooks(bytes);
    this.#drawn = null;
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
    this.#showPoints();
    drawMarks(this.overlay, this.camera, this.size, this.ratio, this.marks);
  }

  /** Move the picture of the points while the map moves: drawing many takes longer than a frame without a graphics card. */
  #showPoints() {
    const { camera, size } = this;
    clearTimeout(this.#rest);
    if (this.#drawn && cameras.isKept(this.#drawn, camera, size)) {
      this.canvas.style.transform = cameras.transformOf(this.#drawn, camera);
      const isExact = ["x", "y", "scale"].every((part) => this.#drawn[part] === camera[part]);
      if (!isExact) this.#rest = setTimeout(() => this.#drawPoints(), REST_MS);
    } else this.#drawPoints();
  }

  #drawPoints() {
    const { camera, size, ratio } = this;
    this.points.draw(camera, cameras.pictureSize(size), cameras.pointSize(camera, size, this.count), ratio);
    this.canvas.style.transform = "";
    this.#drawn = camera;
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
