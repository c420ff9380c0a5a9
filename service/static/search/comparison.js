// The reading view of the search page: the query and results beside each other.

import { callParts } from "../page_parts.js";
import { state } from "../page_state.js";
import { tr } from "../translate.js";
import { openReading, resultOf } from "../viewer/reading.js";
import { queryViewer, regionParts, sourceOf } from "./query_viewer.js";
import { collectionName, mark, shownHits, startSearch } from "./run.js";

const KINDS = { relevant: 1, irrelevant: -1 };

/** The query in words. */
export const captionOf = ({ text, image }) => text ?? (image ? tr("Image {name} of the collection", { name: image.slice(0, 8) }) : tr("Your image"));

/** Compare results with the query: those of the page, or others; from one of them, or from the first. */
export function openComparison(from = shownHits(state)[0], listed = shownHits(state)) {
  const { shownQuery: query } = state;
  const hits = listed.filter(({ site }) => !site);
  if (!hits.length) return;
  const viewer = query === state.query ? queryViewer() : null; // which else shows the query whose results are awaited
  const source = query.text ? null : sourceOf(query);
  openReading({
    query: { source: source && { ...source, window: viewer?.window ?? query.window }, caption: captionOf(query), region: regionParts(query, viewer?.picture?.size) },
    results: hits.map((hit) => resultOf(hit, collectionName())),
    index: Math.max(hits.findIndex(({ image_id }) => image_id === from.image_id), 0),
    actions: {
      search: (image) => startSearch({ image }),
      ...(!query.text && query === state.query && {
        mark: (image, kind) => mark(image, KINDS[kind]),
        markOf: (image) => Object.keys(KINDS).find((kind) => KINDS[kind] === state.marks.get(image)) ?? null,
      }),
      shown: ({ hit }) => callParts("openResult", "compare", hit),
      told: ({ hit }) => callParts("openResult", "metadata", hit),
      closed: ({ id }) => document.querySelector(`#columns .card[data-image="${CSS.escape(id)}"]`)?.focus(),
    },
  });
}
