// The map: which part is in sight, places (-1 to 1, upwards) to pixels (from the top left) and back, and drawing it. The picture of the points
// is larger than that, and moves with the map until it must be drawn again.

import { clamp } from "../viewer/place.js";
import { createGlPoints, createPlainPoints } from "./draw_gl.js";

const EDGE = 24; // pixels around the whole map
const MOST_ZOOM = 400; // of the whole map

export const fitted = ({ width, height }) => ({ x: 0, y: 0, scale: Math.max(1, (Math.min(width, height) - 2 * EDGE) / 2) });

/** The pixels of a place. */
export const toPixels = (camera, size, x, y) => [size.width / 2 + (x - camera.x) * camera.scale, size.height / 2 - (y - camera.y) * camera.scale];

/** The place of a pixel. */
export const toPlace = (camera, size, px, py) => [camera.x + (px - size.width / 2) / camera.scale, camera.y - (py - size.height / 2) / camera.scale];

export const moved = (camera, dx, dy) => ({ ...camera, x: clamp(camera.x - dx / camera.scale, -1, 1), y: clamp(camera.y + dy / camera.scale, -1, 1) });

/** Zoom by a factor so that the place of a pixel stays where it is. */
export function zoomed(camera, size, factor, px = size.width / 2, py = size.height / 2) {
  const whole = fitted(size).scale;
  const scale = clamp(camera.scale * factor, whole / 2, whole * MOST_ZOOM);
  const [x, y] = toPlace(camera, size, px, py);
  const next = { ...camera, scale };
  const [nx, ny] = toPlace(next, size, px, py);
  return { scale, x: clamp(camera.x + x - nx, -1, 1), y: clamp(camera.y + y - ny, -1, 1) };
}

/** The diameter of a point in pixels: larger where fewer are in sight. */
export function pointSize(camera, size, count) {
  const zoom = camera.scale / fitted(size).scale;
  const whole = clamp(Math.sqrt((size.width * size.height) / Math.max(count, 1)) / 2.2, 3, 10);
  return clamp(whole * zoom ** 0.35, 3, 16);
}

const MARGIN = 0.25; // on each side, as a share of what is in sight; as in map.css
const MOST = 1.5; // times larger or smaller than drawn

/** The size of the picture for a size in sight. */
export const pictureSize = ({ width, height }) => ({ width: width * (1 + 2 * MARGIN), height: height * (1 + 2 * MARGIN) });

/** The CSS transform that shows a picture drawn for the camera `drawn` as `camera` sees it. */
export function transformOf(drawn, camera) {
  const [right, down] = [(drawn.x - camera.x) * camera.scale, (camera.y - drawn.y) * camera.scale];
  return `translate(${right}px, ${down}px) scale(${camera.scale / drawn.scale})`;
}

/** Whether a picture drawn for the camera `drawn` has all of the map that `camera` sees, at nearly its size. */
export function isKept(drawn, camera, size) {
  const factor = camera.scale / drawn.scale;
  if (factor > MOST || factor < 1 / MOST) return false;
  const whole = pictureSize(size);
  return spans(drawn.x, camera.x, whole.width / drawn.scale, size.width / camera.scale)
    && spans(drawn.y, camera.y, whole.height / drawn.scale, size.height / camera.scale);
}

/** Whether a drawn span has all of the map (-1 to 1) that a seen one has. */
function spans(drawn, seen, drawnLength, seenLength) {
  const [low, high] = [Math.max(-1, seen - seenLength / 2), Math.min(1, seen + seenLength / 2)];
  return drawn - drawnLength / 2 <= low && drawn + drawnLength / 2 >= high;
}

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
function drawMarks(canvas, camera, size, ratio, marks) {
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
    return this.#camera ?? fitted(this.size);
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
    for (const [canvas, { width, height }] of [[this.canvas, pictureSize(this.size)], [this.overlay, this.size]]) {
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
    if (this.#drawn && isKept(this.#drawn, camera, size)) {
      this.canvas.style.transform = transformOf(this.#drawn, camera);
      const isExact = ["x", "y", "scale"].every((part) => this.#drawn[part] === camera[part]);
      if (!isExact) this.#rest = setTimeout(() => this.#drawPoints(), REST_MS);
    } else this.#drawPoints();
  }

  #drawPoints() {
    const { camera, size, ratio } = this;
    this.points.draw(camera, pictureSize(size), pointSize(camera, size, this.count), ratio);
    this.canvas.style.transform = "";
    this.#drawn = camera;
  }

  pan = (dx, dy) => (this.camera = moved(this.camera, dx, dy));

  zoom = (factor, px, py) => (this.camera = zoomed(this.camera, this.size, factor, px, py));

  showAll = () => (this.camera = null);

  placeOf = (px, py) => toPlace(this.camera, this.size, px, py);

  /** A distance in pixels as one between places. */
  reach = (pixels) => pixels / this.camera.scale;
}
