// What the page asks of the service.

import { current, imageAddress } from "./collection.js";

/** Something went wrong; title and message are for the reader, passing says whether to try again may help. */
export class Problem extends Error {
  constructor(title, message, passing = false) {
    super(message);
    this.title = title;
    this.passing = passing;
  }
}

const TITLES = {
  401: "You are not logged in any more",
  403: "The service refused the request",
  404: "That is not in the collection",
  410: "The file of that image is gone",
  413: "The image is too large",
  415: "That is not an image",
  422: "The search cannot be done like this",
  429: "The service is busy",
  503: "The collection cannot be searched at the moment",
};

// What shows the service that a request comes from its own page; there is none without a login.
const csrf = document.querySelector('meta[name="csrf"]')?.content;

async function ask(address, options) {
  let response;
  try {
    response = await fetch(address, csrf ? { ...options, headers: { ...options.headers, "X-CSRF-Token": csrf } } : options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service does not answer", "See whether cbir serve is still running, then search again.", true);
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  const title = TITLES[response.status] ?? "The search failed";
  const words = sentence(said.detail ?? `The service answered ${response.status}.`);
  throw new Problem(title, words, response.status === 429 || response.status >= 500);
}

function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

function form(query) {
  const fields = new FormData();
  fields.set("image", query.file, "image"); // its name stays here: it may be a patient's
  if (query.frame > 1) fields.set("frame", query.frame);
  for (const name of ["window", "region"]) {
    if (query[name]) fields.set(name, query[name].join(","));
  }
  return fields;
}

/** The answer to a query {image | file, frame, window, region}, asked for with {k, rerank, where: [], feedback: []}. */
export async function search(query, wanted, signal) {
  let options;
  const collection = current();
  if (query.image) {
    const asked = { image_id: query.image, ...wanted };
    if (!wanted.feedback.length) delete asked.feedback;
    if (query.region) asked.region = query.region;
    if (collection) asked.collection = collection;
    const body = JSON.stringify(asked);
    options = { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
  } else {
    const fields = form(query);
    fields.set("k", wanted.k);
    fields.set("rerank", wanted.rerank);
    if (wanted.feedback.length) fields.set("feedback", JSON.stringify(wanted.feedback));
    if (collection) fields.set("collection", collection);
    for (const condition of wanted.where) fields.append("where", condition);
    options = { method: "POST", body: fields, signal };
  }
  return (await ask("/v1/search", options)).json();
}

/** Where a query {image | file, frame, window, region} stands among the images with grades in the label `column`. */
export async function grade(query, column, signal) {
  const asked = { grade_column: column };
  if (current()) asked.collection = current();
  let options;
  if (query.image) {
    const body = JSON.stringify({ ...asked, image_id: query.image });
    options = { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
  } else {
    const fields = form(query);
    for (const [name, value] of Object.entries(asked)) fields.set(name, value);
    options = { method: "POST", body: fields, signal };
  }
  return (await ask("/v1/grade", options)).json();
}

/** A picture the browser can show of a query's file: {blob, size, windowing}, null for an image without a window. */
export async function render(query, signal) {
  const answer = await ask("/v1/render", { method: "POST", body: form(query), signal });
  const numbers = (name) => answer.headers.get(name)?.split(",").map(Number);
  const [width, height] = numbers("Image-Size");
  const window = numbers("Image-Window");
  const windowing = window ? { window, values: numbers("Image-Values") } : null;
  return { blob: await answer.blob(), size: { width, height }, windowing };
}

/** The record of an image of the collection. */
export async function record(image, signal) {
  return (await ask(imageAddress(image), { signal })).json();
}

/** The page of a collection, as text. */
export async function pageOf(collection, signal) {
  return (await ask(`/?${new URLSearchParams({ collection })}`, { signal })).text();
}
