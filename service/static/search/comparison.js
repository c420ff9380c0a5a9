// The reading view: the query and results beside each other.

import { callParts } from "../page_parts.js";
import { state, update } from "../page_state.js";

/** Compare results with the query, from one of them, or from the first. */
export function openComparison(hit = state.answer.results[0]) {
  update({ compared: hit.image_id });
  callParts("openResult", "compare", hit);
}
