// The way from results to their places on the map.

import { mapAddress } from "./map/groups.js";
import { addPart } from "./page_state.js";
import { collectionName, shownHits } from "./search/run.js";
import { tr } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

function menu(now) {
  if (!now.answer?.results.length) return nothing;
  const hits = shownHits(now).map(({ image_id }) => image_id);
  const collection = now.facts.several ? collectionName() : "";
  return html`<a id="on-map" target="_blank" rel="noopener" href=${mapAddress({ collection, image: now.query?.image, hits })}>${tr("Show on the map")}</a>`;
}

addPart({ menu });
