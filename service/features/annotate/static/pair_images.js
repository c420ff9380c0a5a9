// Pictures of items, fetched and decoded ahead of time.

import { tr } from "/static/translate.js";
import { request } from "./server.js";

const MAX_CACHED = 40; // pictures
const cache = new Map(); // Promise of {address, info} by address, the most recently used last

function numbers(response, name) {
  return response.headers.get(name).split(",").map(Number);
}

async function load(address) {
  const response = await request(address);
  const info = {
    window: numbers(response, "Image-Window"),
    values: numbers(response, "Image-Values"),
    scale: response.headers.get("Image-Scale"),
  };
  return { address: URL.createObjectURL(await response.blob()), info };
}

function picture(imageId, window) {
  const query = window ? `?window=${window.join(",")}` : "";
  const address = `/annotate/images/${imageId}/picture${query}`;
  const loading = cache.get(address) ?? load(address);
  cache.delete(address);
  cache.set(address, loading);
  loading.catch(() => cache.delete(address));
  if (cache.size > MAX_CACHED) {
    const [oldest, evicted] = cache.entries().next().value;
    cache.delete(oldest);
    evicted.then((loaded) => URL.revokeObjectURL(loaded.address), () => {});
  }
  return loading;
}

async function imageElement({ address }, alt) {
  const image = new Image();
  image.alt = alt;
  image.draggable = false;
  image.src = address;
  await image.decode();
  return image;
}

/** Load the pictures of images, in the window {scale, window} if all have its scale, else in their own. */
export async function loadPictures(ids, shared) {
  let pictures = await Promise.all(ids.map((id) => picture(id, shared?.window)));
  const scales = new Set(pictures.map(({ info }) => info.scale));
  const [scale] = scales;
  const isSame = scales.size === 1;
  if (shared && !(isSame && scale === shared.scale)) pictures = await Promise.all(ids.map((id) => picture(id)));
  const names = ids.length > 1 ? [tr("Left image"), tr("Right image")] : [tr("Image to grade")];
  const images = await Promise.all(pictures.map((loaded, position) => imageElement(loaded, names[position])));
  const infos = pictures.map(({ info }) => info);
  const values = [Math.min(...infos.map((info) => info.values[0])), Math.max(...infos.map((info) => info.values[1]))];
  return { images, info: isSame ? { scale, window: infos[0].window, values } : null };
}
