// Images of a case or cohort on the whole screen.

import { openReading, resultOf } from "../viewer/reading.js";
import { searchAddress } from "./saved_words.js";

/** Show images, from the one at an index, beside a query {source, caption} if there is one. */
export function lookCloser(hits, index, collection, query = { source: null, caption: "" }) {
  const results = hits.map((hit, at) => resultOf({ rank: at + 1, ...hit }, collection));
  openReading({ query, results, index, actions: { search: (image) => location.assign(searchAddress(image, collection)) } });
}
