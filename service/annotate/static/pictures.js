// Pictures of pairs: fetched, decoded and ready before they are wanted.

import { ask } from "./server.js";

const MOST = 40; // pictures that are kept
const kept = new Map(); // address: Promise of {address, facts}, the one used last at the end

function numbers(response, name) {
  return response.headers.get(name).split(",").map(Number);
}

async function fetched(address) {
  const response = await ask(address);
  const facts = {
    window: numbers(response, "Image-Window"),
    values: numbers(response, "Image-Values"),
    scale: response.headers.get("Image-Scale"),
  };
  return { address: URL.createObjectURL(await response.blob()), facts };
}

function picture(image, window) {
  const query = window ? `?window=${window.join(",")}` : "";
  const address = `/annotate/images/${image}/picture${query}`;
  const found = kept.get(address) ?? fetched(address);
  kept.delete(address);
  kept.set(address, found);
  found.catch(() => kept.delete(address));
  if (kept.size > MOST) {
    const [oldest, old] = kept.entries().next().value;
    kept.delete(oldest);
    old.then((one) => URL.revokeObjectURL(one.address), () => {});
  }
  return found;
}

async function element(one, words) {
  const image = new Image();
  image.alt = words;
  image.draggable = false;
  image.src = one.address;
  await image.decode();
  return image;
}

/** Both pictures of a pair {first, second}, in the window {scale, window} where both have that scale, else their own. */
export async function ready({ first, second }, chosen) {
  let both = await Promise.all([picture(first, chosen?.window), picture(second, chosen?.window)]);
  const same = both[0].facts.scale === both[1].facts.scale;
  if (chosen && !(same && both[0].facts.scale === chosen.scale)) both = await Promise.all([picture(first), picture(second)]);
  const images = await Promise.all([element(both[0], "Left image"), element(both[1], "Right image")]);
  const [one, other] = both.map(({ facts }) => facts);
  const values = [Math.min(one.values[0], other.values[0]), Math.max(one.values[1], other.values[1])];
  return { images, facts: same ? { scale: one.scale, window: one.window, values } : null };
}
