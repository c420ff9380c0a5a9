// Requests to the service.

import { session } from "./login/session.js";
import { Problem, problemIn } from "./problems.js";
import { tr } from "./translate.js";

/** An address with these fields added: lists are repeated, empty values left out. */
export function withFields(address, fields) {
  const pairs = Object.entries(fields).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  const query = new URLSearchParams(pairs.filter(([, value]) => value !== undefined && value !== null && value !== "")).toString();
  return `${address}${query && `${address.includes("?") ? "&" : "?"}${query}`}`;
}

/** The address of something of a collection: below /v1, or of the default collection for "". */
export const addressIn = (collection, path, fields = {}) => withFields(`/v1/${collection ? `collections/${encodeURIComponent(collection)}/` : ""}${path}`, fields);

/** The address of the search page with an image of a collection, "" for the default one; others: images that are judged relevant. */
export const searchAddress = (image, collection, others = []) => withFields("/", { image, collection, said: others.join(",") });

/** The address of an image of a collection, or of a part of it such as "/picture". */
export const imageAddress = (collection, image, part = "", fields = {}) => addressIn(collection, `images/${encodeURIComponent(image)}${part}`, fields);

/** Send a request and return its response; onProgress(share) of what is sent is called. Raises Problem for a problem. */
export async function request(address, options) {
  let response;
  try {
    response = await session.fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (options.body instanceof FormData) await checkReadable(options.body);
    throw new Problem(tr("The service does not respond"), tr("Check your connection and try again. If it stays like this, tell those who run the service."), true);
  }
  if (response.ok) return response;
  throw await problemIn(response);
}

export const fetchJson = async (address, options = {}) => (await request(address, options)).json();

/** Raise Problem for a file that has changed, or is gone, since it was chosen. */
async function checkReadable(form) {
  for (const file of form.getAll("image")) {
    await file.slice(0, 1).arrayBuffer().catch(() => {
      throw new Problem(tr("The file cannot be read"), tr("It has changed or moved since you chose it. Choose it again."));
    });
  }
}

export const jsonBody = (fields) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) });

/** Options of a request that posts the files of a query {file | files, frame, window, region}, with other fields; lists are repeated. */
export function formBody({ file, files = [file], frame, window, region }, fields = {}) {
  const body = new FormData();
  for (const each of files) body.append("image", each, "image"); // without its name, which may be a patient's
  const all = { ...(frame > 1 && { frame }), window: window?.join(","), region: region?.join(","), ...fields };
  for (const [name, value] of Object.entries(all)) for (const each of [value ?? []].flat()) body.append(name, each);
  return { method: "POST", body };
}

export const record = ({ collection, id }) => fetchJson(imageAddress(collection, id));

/** Load all images of a study, or of one of its series, in their order, with their cards. */
export async function seriesImages(collection, { study, series }) {
  const items = [];
  for (let cursor = ""; cursor !== null; ) {
    const page = await fetchJson(addressIn(collection, "images", { study, series, sort: "slices", cards: true, limit: 1000, cursor }));
    items.push(...page.items);
    cursor = page.next;
  }
  return items;
}
