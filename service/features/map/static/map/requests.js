// Requests of the map.

import { request } from "../api.js";

const collection = () => document.getElementById("map").dataset.collection;

function address(path) {
  return collection() ? `${path}?${new URLSearchParams({ collection: collection() })}` : path;
}

const load = async (path) => (await request(address(path), {})).json();

/** Load the map {state, ids, x, y, ...}. */
export const loadMap = () => load("/v1/map");

/** Load the values of a label {values, codes} of the images of the map. */
export const loadLabels = (key) => load(`/v1/map/labels/${encodeURIComponent(key)}`);

/** Load the record of an image. */
export const loadRecord = (id) => load(`/v1/images/${encodeURIComponent(id)}`);

async function post(path, ids) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ids }) };
  return (await request(address(path), options)).json();
}

/** Load the places {items, query} of images; those that the collection no longer has are left out. */
export async function loadPlaces(ids) {
  const { items } = await post("/v1/images/records", ids);
  return items.length ? post("/v1/map/places", items.map((item) => item.image_id)) : { items: [], query: null };
}

/** The address of the thumbnail of an image. */
export const thumbnail = (id) => address(`/v1/images/${encodeURIComponent(id)}/thumbnail`);
