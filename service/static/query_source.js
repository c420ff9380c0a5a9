// The picture of the query for the comparison.

import { render } from "./api.js";
import * as collection from "./collection.js";
import { byId } from "./dom.js";
import { signal as runningSignal, state } from "./search_state.js";

/** The address of the query's picture, or of its region; null for words, undefined if the region cannot be drawn. */
export async function pictureSource() {
  const { query } = state;
  if (query.text) return null;
  if (!query.region) return byId("picture").src;
  if (query.image) return collection.imageAddress(query.image, "/picture", { region: query.region });
  const part = await render(query, runningSignal()).catch(() => null);
  return part ? URL.createObjectURL(part.blob) : undefined; // small; released with the page
}
