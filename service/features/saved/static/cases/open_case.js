// Taking up a saved case: its address becomes that of its search, and the history entry has its judgements.

import * as address from "../address.js";
import { fetchJson, request } from "../api.js";
import { apiAddress } from "../saved/saved_words.js";
import { entryOf } from "../search/run.js";
import { addressParams, historyEntry } from "./case_content.js";

/** The query of a case that no address contains: words, or the stored picture; null for an image of the collection. */
async function ownQuery({ search, picture }) {
  if (search.image_id) return null;
  if (search.text) return { text: search.text };
  const blob = await (await request(picture, {})).blob();
  const file = new File([blob], "image", { type: blob.type });
  return search.region ? { file, region: search.region } : { file };
}

/** Turn the address of a case, /?case=ID, into that of its search; any other address stays. */
export async function openCase() {
  const id = new URLSearchParams(location.search).get("case");
  if (!id) return;
  const saved = await fetchJson(apiAddress("cases", id));
  const entry = { ...historyEntry(saved), ...entryOf(await ownQuery(saved)) };
  history.replaceState(entry, "", address.write(addressParams(saved)));
}
