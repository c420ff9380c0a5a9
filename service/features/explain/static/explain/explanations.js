// Explanations of the results of the current query, requested for a few results at a time and kept.

import { number, tr } from "../translate.js";

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
