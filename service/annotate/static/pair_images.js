// Pictures of pairs, fetched and decoded ahead of time.

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

/** Load both pictures of a pair {first, second}, in the window {scale, window} if both have its scale, else their own. */
export async function loadPair({ first, second }, windowing) {
  let pictures = await Promise.all([picture(first, windowing?.window), picture(second, windowing?.window)]);
  const sameScale = pictures[0].info.scale === pictures[1].info.scale;
  if (windowing && !(sameScale && pictures[0].info.scale === windowing.scale)) {
    pictures = await Promise.all([picture(first), picture(second)]);
  }
  const images = await Promise.all([imageElement(pictures[0], "Left image"), imageElement(pictures[1], "Right image")]);
  const [left, right] = pictures.map(({ info }) => info);
  const values = [Math.min(left.values[0], right.values[0]), Math.max(left.values[1], right.values[1])];
  return { images, info: sameScale ? { scale: left.scale, window: left.window, values } : null };
}
