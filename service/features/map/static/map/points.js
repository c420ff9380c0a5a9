// The points of the map, as the service has them, and which of them the page shows.

import { load } from "../browse/listing.js";
import { counted, meeting, MOST_HITS, ordered, readArea } from "./groups.js";

/** The visible one of the points {x, y} that is nearest to a place, at most `radius` away; -1 if there is none. */
export function nearest({ x, y }, left, up, radius, isVisible) {
  let [best, least] = [-1, radius * radius];
  for (let point = 0; point < x.length; point += 1) {
    const squared = (x[point] - left) ** 2 + (y[point] - up) ** 2;
    if (squared <= least && isVisible(point)) [best, least] = [point, squared];
  }
  return best;
}

/** True for a place inside an outline: a ray from it crosses the outline an odd number of times. */
export function isInside(outline, x, y) {
  let inside = false;
  let before = outline.at(-1);
  for (const corner of outline) {
    if (before[1] > y !== corner[1] > y && x < before[0] + ((y - before[1]) / (corner[1] - before[1])) * (corner[0] - before[0])) inside = !inside;
    before = corner;
  }
  return inside;
}

const POLL_MS = 1000;
const NONE = { ids: [], x: new Float32Array(), y: new Float32Array(), all: [], generation: null };

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
  return meeting(outline.length ? points.all.filter((point) => isInside(outline, points.x[point], points.y[point])) : points.all, where, labelsOf);
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
