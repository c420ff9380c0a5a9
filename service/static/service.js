// What the page asks of the service.

/** Something went wrong; title and message are for the reader. */
export class Problem extends Error {
  constructor(title, message) {
    super(message);
    this.title = title;
  }
}

const TITLES = {
  401: "You are not logged in any more",
  403: "The service refused the request",
  404: "That image is not in the collection",
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
    throw new Problem("The service does not answer", "See whether cbir serve is still running, then search again.");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  const title = TITLES[response.status] ?? "The search failed";
  throw new Problem(title, sentence(said.detail ?? `The service answered ${response.status}.`));
}

function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

function form(query) {
  const fields = new FormData();
  fields.set("image", query.file, "image"); // its name stays here: it may be a patient's
  if (query.frame > 1) fields.set("frame", query.frame);
  return fields;
}

/** The answer to a query {image | file, frame}, asked for with {k, rerank, where: []}. */
export async function search(query, wanted, signal) {
  let options;
  if (query.image) {
    const body = JSON.stringify({ image_id: query.image, ...wanted });
    options = { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
  } else {
    const fields = form(query);
    fields.set("k", wanted.k);
    fields.set("rerank", wanted.rerank);
    for (const condition of wanted.where) fields.append("where", condition);
    options = { method: "POST", body: fields, signal };
  }
  return (await ask("/v1/search", options)).json();
}

/** A picture the browser can show of a query's file, as a blob. */
export async function render(query, signal) {
  return (await ask("/v1/render", { method: "POST", body: form(query), signal })).blob();
}

/** The record of an image of the collection. */
export async function record(image, signal) {
  return (await ask(`/v1/images/${encodeURIComponent(image)}`, { signal })).json();
}
