// What explains a result: canvases for the pictures of the query and of a result, and bars of shares in its distance.

import { html } from "../vendor/lit.js";
import { partsOf } from "./explanations.js";
import { heatRange, paintEdges, paintHeat } from "./paint.js";

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

/** A list of bars with their names and shares. */
export const bars = (shares) => html`<ul class="part-bars" role="list">${partsOf(shares).map(({ name, share, text }) =>
  html`<li><span class="part-name">${name}</span><span class="part-track"><span class="part-bar" .style=${`width: ${100 * share}%`}></span></span><span class="part-share">${text}</span></li>`)}</ul>`;
