// The canvas of the map: which part is in sight, and drawing it.

import * as cameras from "./camera.js";
import { toPixels } from "./camera.js";
import { createGlPoints, createPlainPoints } from "./draw_gl.js";

const STAR = 13; // pixels from the middle to a tip

function drawStar(context, x, y) {
  context.beginPath();
  for (let tip = 0; tip < 10; tip += 1) {
    const radius = tip % 2 ? STAR * 0.45 : STAR;
    const angle = (Math.PI * tip) / 5 - Math.PI / 2;
    context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
  }
  context.closePath();
}

function ring(context, [x, y], radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Stroke the current path so that it is seen on points of every colour. */
function strokeOutline(context, { ground, ink }, width) {
  context.strokeStyle = ground;
  context.lineWidth = width + 3;
  context.stroke();
  context.strokeStyle = ink;
  context.lineWidth = width;
  context.stroke();
}

const isEmpty = ({ query, hits, current, outline }) => !query && !hits.length && !current && !outline.length;

/** Draw marks {query, hits, current, outline}, all places of the map, in the colours of the canvas's frame. */
export function drawMarks(canvas, camera, size, ratio, marks) {
  if (isEmpty(marks) && canvas.dataset.empty) return; // an unchanged canvas costs a frame nothing
  canvas.dataset.empty = isEmpty(marks) ? "1" : "";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  if (isEmpty(marks)) return;
  const style = getComputedStyle(canvas.parentElement);
  const colours = { ink: style.color, ground: style.backgroundColor, accent: style.outlineColor };
  const at = ({ x, y }) => toPixels(camera, size, x, y);
  for (const hit of marks.hits) {
    ring(context, at(hit), 8);
    strokeOutline(context, colours, 2);
  }
  if (marks.query) {
    drawStar(context, ...at(marks.query));
    strokeOutline(context, colours, 1.5);
    context.fillStyle = "#ffd66b";
    context.fill();
  }
  if (marks.current) {
    ring(context, at(marks.current), 9);
    strokeOutline(context, { ...colours, ink: colours.accent }, 3);
  }
  if (marks.outline.length > 1) {
    context.beginPath();
    for (const [x, y] of marks.outline) context.lineTo(...at({ x, y }));
    context.closePath();
    context.globalAlpha = 0.12;
    context.fillStyle = colours.accent;
    context.fill();
    context.globalAlpha = 1;
    strokeOutline(context, { ...colours, ink: colours.accent }, 1.5);
  }
}

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
