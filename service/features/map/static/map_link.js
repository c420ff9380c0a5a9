// The way from results to their places on the map.

import { current } from "./collection.js";
import { byId } from "./dom.js";
import { mapAddress } from "./map/map_address.js";
import { addPart } from "./page_parts.js";
import { state } from "./search_state.js";

/** Connect the link; it leads to the query and the results that are shown when it is followed. */
function install() {
  const link = byId("on-map");
  for (const event of ["pointerdown", "focus", "click"]) {
    link.addEventListener(event, () => {
      if (!state.shown) return;
      const { after, params } = state.shown;
      const hits = after.results.slice(0, params.k).map(({ image_id }) => image_id);
      link.href = mapAddress({ collection: current(), image: state.query?.image, hits });
    });
  }
}

addPart({ install });
