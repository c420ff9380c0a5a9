// What explains a result: requested for a few results at a time and kept; drawn on pictures as heat maps and directions of edges, and as bars.

import { number, tr } from "../translate.js";
import { html } from "../vendor/lit.js";

const LEAST = 0.3; // of a match; weaker ones are not coloured
const NARROWEST = 0.1; // range of matches from clear to OPAQUE; smaller differences do not stand out
const OPAQUE = 150; // opacity of the best match, of 255
const LEAST_EDGES = 0.12; // share of a kind of edges that is drawn
const COLOURS = [[255, 96, 0], [255, 238, 80]]; // orange to yellow: seen on grey, also by those who see no red and green

// Directions of vertical, horizontal, 45 and 135 degree edges on the screen; other edges have none.
const DIRECTIONS = [[0, 1], [1, 0], [1, -1], [1, 1]];

/** The median of the values above 0 of a map; 0 without any. */
function middle(map) {
  const values = map.flat().filter((value) => value > 0).sort((a, b) => a - b);
  return values[values.length >> 1] ?? 0;
}

/** The range of matches that two maps are coloured in: from what is usual, in the map where it is lower, to the best. */
export function heatRange({ query_map: query, answer_map: answer }) {
  const least = Math.max(LEAST, Math.min(middle(query), middle(answer)));
  return { least, most: Math.max(...query.flat(), ...answer.flat(), least + NARROWEST) };
}

/** The colour of a match from 0 to 1 as [red, green, blue, opacity], each from 0 to 255; clear up to `least` of a range. */
export function heatColour(match, { least, most }) {
  const strength = Math.min(Math.max((match - least) / (most - least), 0), 1);
  const [weak, strong] = COLOURS;
  return [...weak.map((value, index) => Math.round(value + (strong[index] - value) * strength)), Math.round(OPAQUE * strength)];
}

/** The pixels of a map of rows, for an ImageData of as many columns and rows. */
export const heatPixels = (map, range) => new Uint8ClampedArray(map.flat().flatMap((match) => heatColour(match, range)));

/** The strongest kind of edges in each part of an image, as {row, column, direction, share}; direction is null for edges of no direction. */
export function strongestEdges(edges) {
  const strongest = [];
  edges.forEach((cells, row) => cells.forEach((shares, column) => {
    const share = Math.max(...shares);
    if (share >= LEAST_EDGES) strongest.push({ row, column, direction: DIRECTIONS[shares.indexOf(share)] ?? null, share });
  }));
  return strongest;
}

function paintHeat(canvas, map, range) {
  const small = document.createElement("canvas");
  [small.width, small.height] = [map[0].length, map.length];
  small.getContext("2d").putImageData(new ImageData(heatPixels(map, range), small.width, small.height), 0, 0);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** Paint a line in the direction of the strongest edges of each part of an image; a ring for those of no direction. */
function paintEdges(canvas, edges) {
  const context = canvas.getContext("2d");
  const [width, height] = [canvas.width / edges[0].length, canvas.height / edges.length];
  context.lineWidth = Math.max(canvas.width, canvas.height) / 80;
  context.lineCap = "round";
  for (const { row, column, direction, share } of strongestEdges(edges)) {
    const [x, y] = [(column + 0.5) * width, (row + 0.5) * height];
    const reach = Math.min(width, height) * 0.35;
    context.strokeStyle = `rgb(255 180 40 / ${Math.round(40 + 60 * Math.min(share * 2, 1))}%)`;
    context.beginPath();
    if (direction) {
      const scale = reach / Math.hypot(...direction);
      context.moveTo(x - direction[0] * scale, y - direction[1] * scale);
      context.lineTo(x + direction[0] * scale, y + direction[1] * scale);
    } else context.arc(x, y, reach / 2, 0, 2 * Math.PI);
    context.stroke();
  }
}

const MOST_PIXELS = 256; // of a side; maps are coarse

/** A canvas of the shape of a map of rows, painted by paint(canvas, map). */
function canvasFor(map, paint) {
  const canvas = document.createElement("canvas");
  const scale = MOST_PIXELS / Math.max(map[0].length, map.length);
  canvas.width = Math.max(1, Math.round(map[0].length * scale));
  canvas.height = Math.max(1, Math.round(map.length * scale));
  paint(canvas, map);
  return canvas;
}

/** Canvases {query, answer} over whole pictures; null where there is nothing to paint, as over a query with a region and edges. */
export function paintings(explanation, { region } = {}) {
  if (explanation.kind === "places") {
    const range = heatRange(explanation);
    const [query, answer] = [explanation.query_map, explanation.answer_map].map((map) => canvasFor(map, (canvas) => paintHeat(canvas, map, range)));
    return { query, answer };
  }
  const { query_edges: query, answer_edges: answer } = explanation;
  return { query: query && !region ? canvasFor(query, paintEdges) : null, answer: answer ? canvasFor(answer, paintEdges) : null };
}

export const bars = (shares) => html`<ul class="part-bars" role="list">${partsOf(shares).map(({ name, share, text }) =>
  html`<li><span class="part-name">${name}</span><span class="part-track"><span class="part-bar" .style=${`width: ${100 * share}%`}></span></span><span class="part-share">${text}</span></li>`)}</ul>`;

export const BATCH = 6; // results of a request; the next ones are likely to be looked at too

/** The ids to request with `image`: itself, and those after it that were not requested, at most BATCH. */
export function batchOf(image, images, isKept) {
  const after = images.slice(images.indexOf(image) + 1).filter((id) => !isKept(id));
  return [...new Set([image, ...after])].slice(0, BATCH);
}

/** Keeps explanations by image; load(query, ids) requests {kind, items} of some. */
export class Explanations {
  constructor(load) {
    Object.assign(this, { load, query: null, kept: new Map() });
  }

  /** The explanation {kind, image_id, ...} of a result of `query`, null if it failed; images: the results in their order. */
  async of(query, image, images) {
    if (this.query !== query) Object.assign(this, { query, kept: new Map() });
    const { kept } = this;
    if (!kept.has(image)) {
      const ids = batchOf(image, images, (id) => kept.has(id));
      const loading = this.load(query, ids).then(
        ({ kind, items }) => new Map(items.map((item) => [item.image_id, { kind, ...item }])),
        () => {
          for (const id of ids) kept.delete(id); // tried again when it is looked at again
          return new Map();
        },
      );
      for (const id of ids) kept.set(id, loading);
    }
    return (await kept.get(image)).get(image) ?? null;
  }
}

const NAMES = { color_layout: tr("Colour"), tamura: tr("Texture"), edge_histogram: tr("Edges") };

/** The shares of parts in a distance as [{name, share, text}], the largest first. */
export function partsOf(shares) {
  const parts = Object.entries(shares).map(([part, share]) => ({ name: NAMES[part] ?? part, share, text: number(share, { style: "percent", maximumFractionDigits: 0 }) }));
  return parts.sort((a, b) => b.share - a.share);
}
