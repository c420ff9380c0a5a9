// Requests of Browse, and downloads of images with their labels as csv or JSON.

import { addressIn, fetchJson, imageAddress, jsonBody, request, seriesImages } from "../api.js";
import { state } from "../page_state.js";
import { saveFile } from "../theme.js";

export const MAX_SET = 10_000; // images of a request

const send = (path, fields, options = {}) => request(addressIn(state.facts.collection, path, fields), options);

/** Load something of the collection, or send `body` for it. */
export const load = async (path, fields, signal, body) => (await send(path, fields, { ...(body && jsonBody(body)), signal })).json();

/** Load all images of a study, or of one of its series, in their order. */
export const slices = (uids) => seriesImages(state.facts.collection, uids);

export const record = (id) => fetchJson(imageAddress(state.facts.collection, id, "", { cards: true }));

/** Load the images with these ids; with what cards show, if `cards` is true. */
export const recordsOf = async (ids, cards, signal) => (ids.length ? (await load("images/records", { cards }, signal, { ids })).items : []);

/** Send a change of images in as many parts as it needs. */
async function sendParts(path, method, { ids, ...fields }) {
  for (let start = 0; start < ids.length; start += MAX_SET) await send(path, {}, { ...jsonBody({ ids: ids.slice(start, start + MAX_SET), ...fields }), method });
}

/** Set labels of images; null removes one. */
export const setLabels = (ids, labels) => sendParts("images", "PATCH", { ids, labels });

export const deleteImages = (ids) => sendParts("images/delete", "POST", { ids });

/** Load a csv table {ids} or {where, sort} of images as a Blob. */
const table = async (params) => (await send("images/export", {}, jsonBody(params))).blob();

/** The address of the search page with images: the first is the query, the others are judged relevant. */
export function searchAddress([first, ...others]) {
  const fields = { ...(state.facts.several && { collection: state.facts.collection }), image: first, ...(others.length && { said: others.join(",") }) };
  return `/?${new URLSearchParams(fields)}`;
}

const PAGE = 1000; // images of a request

/** Save {ids} or {where, sort} as a csv table. */
export async function saveTable(params) {
  saveFile("images.csv", "text/csv", await table(params));
}

/** Save records as a JSON list. */
export function saveRecords(records) {
  saveFile("images.json", "application/json", JSON.stringify(records, null, 1));
}

/** Save the records of all pages that load(cursor, limit) has; progress(count) is called for each. */
export async function saveAllRecords(load, progress) {
  const parts = [];
  let [cursor, count] = [null, 0];
  do {
    const page = await load(cursor, PAGE);
    for (const item of page.items) parts.push(count++ ? ",\n" : "", JSON.stringify(item));
    progress(count);
    cursor = page.next;
  } while (cursor !== null);
  saveFile("images.json", "application/json", ["[", ...parts, "]\n"]);
}
