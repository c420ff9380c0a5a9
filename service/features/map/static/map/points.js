// The points of the map, as the service has them, and which of them the page shows.

import { load } from "../browse/listing.js";
import { counted, meeting, MOST_HITS, ordered, readArea } from "./groups.js";

const CELLS = 256; // of a side

const cellOf = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor(((value + 1) / 2) * CELLS)));

export class PointGrid {
  #starts = new Uint32Array(CELLS * CELLS + 1);
  #points;

  /** Sort points into cells; x and y from -1 to 1. */
  constructor(x, y) {
    Object.assign(this, { x, y });
    const cells = Uint32Array.from(x, (value, point) => cellOf(y[point]) * CELLS + cellOf(value));
    for (const cell of cells) this.#starts[cell + 1] += 1;
    for (let cell = 0; cell < CELLS * CELLS; cell += 1) this.#starts[cell + 1] += this.#starts[cell];
    this.#points = new Uint32Array(x.length);
    const next = this.#starts.slice();
    cells.forEach((cell, point) => {
      this.#points[next[cell]] = point;
      next[cell] += 1;
    });
  }

  /** Call visit(point) for the points of the cells that a box touches. */
  #visit(left, bottom, right, top, visit) {
    for (let row = cellOf(bottom); row <= cellOf(top); row += 1) {
      const first = this.#starts[row * CELLS + cellOf(left)];
      const last = this.#starts[row * CELLS + cellOf(right) + 1];
      for (let at = first; at < last; at += 1) visit(this.#points[at]);
    }
  }

  /** The visible point nearest to a place, at most `radius` away; -1 if there is none. */
  nearest(x, y, radius, isVisible = () => true) {
    let best = -1;
    let least = radius * radius;
    this.#visit(x - radius, y - radius, x + radius, y + radius, (point) => {
      const squared = (this.x[point] - x) ** 2 + (this.y[point] - y) ** 2;
      if (squared <= least && isVisible(point)) {
        least = squared;
        best = point;
      }
    });
    return best;
  }

  /** The visible points within an outline [[x, y], ...], ascending. */
  within(outline, isVisible = () => true) {
    const found = [];
    if (outline.length < 3) return found;
    const xs = outline.map(([x]) => x);
    const ys = outline.map(([, y]) => y);
    this.#visit(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), (point) => {
      if (isVisible(point) && isInside(outline, this.x[point], this.y[point])) found.push(point);
    });
    return found.sort((one, other) => one - other);
  }
}

/** True for a place inside an outline: a ray from it crosses the outline an odd number of times. */
export function isInside(outline, x, y) {
  let inside = false;
  outline.forEach(([x1, y1], at) => {
    const [x2, y2] = outline[(at + 1) % outline.length];
    if (y1 > y !== y2 > y && x < x1 + ((y - y1) / (y2 - y1)) * (x2 - x1)) inside = !inside;
  });
  return inside;
}

const POLL_MS = 1000;
const NONE = { ids: [], x: new Float32Array(), y: new Float32Array(), all: [], grid: null, generation: null };

const labels = new Map(); // promises by key
let loading = null;
let renewal = null; // while the map is loaded again
let progress = () => {}; // is told of each answer

export let points = NONE;

/** Call onProgress({phase, done, total, newer}) for each answer. */
export const watch = (onProgress) => (progress = onProgress);

/** Load the map; until there is one, ask again. */
export function loadPoints(anew = false) {
  if (anew || !loading) {
    loading = loadAll();
    loading.catch(() => (loading = null));
  }
  return loading;
}

async function loadAll() {
  for (;;) {
    const { state: phase, reason, job, done, total, ids, x, y, generation } = await load("map");
    if (!["ready", "computing"].includes(phase)) throw new Error(reason);
    if (phase === "ready") {
      labels.clear();
      points = { ids, x: Float32Array.from(x), y: Float32Array.from(y), all: [...ids.keys()], generation };
      points.grid = new PointGrid(points.x, points.y);
    }
    progress({ phase, done, total, newer: Boolean(job) });
    if (phase === "ready") return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** The values of a label {values, codes}, a code for each point; -1, and all of key "", without it. */
export async function labelsOf(key) {
  if (!key) return { values: [], codes: points.all.map(() => -1) };
  if (!labels.has(key)) {
    labels.set(key, load(`map/labels/${encodeURIComponent(key)}`));
    labels.get(key).catch(() => labels.delete(key));
  }
  const answer = await labels.get(key);
  if (answer.generation === points.generation) return answer;
  renewal ??= loadPoints(true).finally(() => (renewal = null)); // the collection has changed in between
  await renewal;
  return labelsOf(key);
}

/** What compute() resolves with; computed again if the points have changed meanwhile, which their numbers do not outlast. */
export async function ofSamePoints(compute) {
  const before = points;
  const found = await compute();
  return points === before ? found : ofSamePoints(compute);
}

/** The points within the area of an address, if it has one, that meet conditions. */
export function chosenPoints(where, area) {
  const outline = readArea(area);
  return meeting(outline.length ? points.grid.within(outline) : points.all, where, labelsOf);
}

/** The images of an area, for the list: their ids in an order, and the values of a label among them. */
export const imagesIn = (area) => ({
  ids: (where, sort) => ofSamePoints(async () => (await ordered(await chosenPoints(where, area), sort, labelsOf)).map((point) => points.ids[point])),
  values: (key, where, limit) => ofSamePoints(async () => counted(await chosenPoints(where, area), await labelsOf(key), limit)),
});

/** The places {query, hits} of a query and results that an address names; images that are gone are left out. */
export async function placesOf({ image, hits }) {
  const named = [...new Set([image, ...(hits ?? "").split(",")].filter(Boolean))].slice(0, MOST_HITS + 1);
  const known = named.length ? (await load("images/records", {}, undefined, { ids: named })).items.map((item) => item.image_id) : [];
  if (!known.length) return { query: null, hits: [] };
  const { items, query } = await load("map/places", {}, undefined, { ids: known });
  const own = items.find((item) => item.image_id === image);
  return { query: image ? (own ?? null) : query, hits: items.filter((item) => item !== own) };
}
