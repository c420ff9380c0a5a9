// Images of a case or cohort on the whole screen.

import { factsOf, titleOf } from "../card_words.js";
import { openReading } from "../viewer/reading.js";
import { searchAddress } from "./saved_words.js";

/** Show images, from the one at an index, beside a query {source, caption} if there is one. */
export function lookCloser(hits, index, collection, query = { source: null, caption: "" }) {
  const results = hits.map((hit, at) => ({ id: hit.image_id, collection, rank: hit.rank ?? at + 1, title: titleOf(hit), facts: factsOf(hit).join(" · "), pacs: hit.links.viewer ?? null }));
  openReading({ query, results, index, actions: { search: (image) => location.assign(searchAddress(image, collection)) } });
}
