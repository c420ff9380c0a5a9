// Requests of the gallery.

import { request } from "../api.js";
import { chosenPage } from "./chosen_images.js";

export const MAX_SET = 10_000; // images of a request

const JSON_HEADERS = { "Content-Type": "application/json" };
const collection = () => document.getElementById("gallery").dataset.collection;

/** Build an address with the collection and parameters; lists are repeated, empty values left out. */
function address(path, params = {}) {
  const query = new URLSearchParams();
  if (collection()) query.set("collection", collection());
  for (const [name, value] of Object.entries(params)) {
    for (const each of [value].flat()) if (each !== "" && each !== null && each !== undefined) query.append(name, each);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function load(path, params, signal) {
  return (await request(address(path, params), { signal })).json();
}

function send(method, path, body) {
  return request(address(path), { method, headers: JSON_HEADERS, body: JSON.stringify(body) });
}

/** Load a page of images {items, next}. */
export const images = (params, signal) => load("/v1/images", params, signal);

/** Load a page of the studies or series {items, next}. */
export const series = (params, signal) => load("/v1/series", params, signal);

/** Load a page of the images with these ids. */
export async function chosenImages(ids, cursor, limit) {
  const { ids: part, next } = chosenPage(ids, cursor, limit);
  const { items } = part.length ? await (await send("POST", "/v1/images/records", { ids: part })).json() : { items: [] };
  return { items, next };
}

/** Load the label keys of the images that meet conditions, and the number of these images. */
export const labelKeys = (where, signal) => load("/v1/labels", { where }, signal);

/** Load the most frequent values of a label. */
export const labelValues = (key, where, limit, signal) => load(`/v1/labels/${encodeURIComponent(key)}`, { where, limit }, signal);

/** The parts of a list that requests may hold. */
function* parts(ids) {
  for (let start = 0; start < ids.length; start += MAX_SET) yield ids.slice(start, start + MAX_SET);
}

/** Set labels of images; null removes one. */
export async function setLabels(ids, labels) {
  for (const part of parts(ids)) await send("PATCH", "/v1/images", { ids: part, labels });
}

/** Delete images. */
export async function deleteImages(ids) {
  for (const part of parts(ids)) await send("POST", "/v1/images/delete", { ids: part });
}

/** Load a csv table {ids} or {where, sort} of images as a Blob. */
export const table = async (params) => (await send("POST", "/v1/images/export", params)).blob();

/** The address of an image's thumbnail or, with "/picture", of its picture. */
export const pictureAddress = (id, part = "/thumbnail") => address(`/v1/images/${encodeURIComponent(id)}${part}`);

/** The address of the search page with images: the first is the query, the others are judged relevant. */
export function searchAddress([first, ...others]) {
  return address("/", { image: first, said: others.join(",") });
}
