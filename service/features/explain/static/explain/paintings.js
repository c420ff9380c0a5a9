// The canvases of an explanation, for the pictures of the query and of a result.

import { canvasFor } from "./overlay.js";
import { heatRange, paintEdges, paintHeat } from "./paint.js";

/** Canvases {query, answer} over whole pictures; null where there is nothing to paint, as over a query with a region and edges. */
export function paintings(explanation, { region } = {}) {
  if (explanation.kind === "places") {
    const range = heatRange(explanation);
    const paint = (map) => canvasFor(map[0].length, map.length, (canvas) => paintHeat(canvas, map, range));
    return { query: paint(explanation.query_map), answer: paint(explanation.answer_map) };
  }
  const paint = (edges) => (edges ? canvasFor(edges[0].length, edges.length, (canvas) => paintEdges(canvas, edges)) : null);
  return { query: region ? null : paint(explanation.query_edges), answer: paint(explanation.answer_edges) };
}
