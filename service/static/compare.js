// Opens the reading view from the results of the search page.

import { current } from "./collection.js";
import * as feedback from "./feedback.js";
import { callParts } from "./page_parts.js";
import { state } from "./search_state.js";
import { tr } from "./translate.js";
import { closeReading, openReading } from "./viewer/reading.js";

/** The query as the source of a viewer; null for words and whole series. */
export function sourceOf(query, collection = current()) {
  const { image, file, frame, slices, slice, places, files, series, window } = query;
  if (image) return { kind: "image", collection, id: image, window };
  if (!file || series) return null;
  if (slices) return { kind: "stack", collection, slices: slices.map((each, index) => ({ file: each, ...places?.[index] })), index: slice, window };
  if (files) return { kind: "stack", collection, slices: files.map((each) => ({ file: each })), index: files.indexOf(file), word: tr("Example") };
  return { kind: "file", collection, file, frame, window };
}

/** A region [x, y, width, height] in pixels as parts of a picture. */
const partsOf = (region, size) => region && size && { x: region[0] / size.width, y: region[1] / size.height, width: region[2] / size.width, height: region[3] / size.height };

/** What the reading view shows of a card. */
function resultOf(card) {
  const { image, rank } = card.dataset;
  const move = card.querySelector(".move")?.title;
  const figures = [...card.querySelectorAll(".figures > *")].map(({ textContent }) => textContent);
  const match = state.shown?.after.results.find((hit) => hit.image_id === image)?.match;
  const pacs = card.parentElement.querySelector(".in-viewer")?.href ?? null;
  return { id: image, collection: current(), rank, title: card.querySelector(".label").textContent, facts: [...figures, move].filter(Boolean).join(" · "), pacs, match, card };
}

/** Open the view for a result card. caption: of the query; size: of its picture; search(image) searches with another one. */
export function open(card, { caption, size, search, withMetadata = false }) {
  const { query } = state;
  const results = [...card.closest(".grid").querySelectorAll(".card")].map(resultOf);
  const index = results.findIndex((result) => result.card === card);
  const actions = {
    search,
    ...(!query.text && { mark: feedback.mark, markOf: feedback.markOf }),
    shown: (result) => callParts("openResult", "compare", result.card),
    told: (result) => callParts("openResult", "metadata", result.card),
    closed: (result) => result.card.isConnected && result.card.focus(),
  };
  openReading({ query: { source: sourceOf(query), caption, region: partsOf(query.region, size) }, results, index, actions, withMetadata });
}

export const close = closeReading;
