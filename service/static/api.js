// Requests to the service.

import { current, imageAddress } from "./collection.js";
import { imageFacts } from "./image_facts.js";
import { session } from "./login/page_session.js";
import { callParts } from "./page_parts.js";
import { problemText } from "./problem_texts.js";
import { tr } from "./translate.js";

/** A failed request; title and message are for the user, temporary is true if trying again may help; status is 0 without a response. */
export class ApiError extends Error {
  constructor(title, message, temporary = false, status = 0) {
    super(message);
    this.title = title;
    this.temporary = temporary;
    this.status = status;
  }
}

const TITLES = {
  401: tr("You are no longer logged in"),
  403: tr("The service refused the request"),
  404: tr("Not in the collection"),
  410: tr("The file of this image is gone"),
  413: tr("The image is too large"),
  415: tr("This is not an image"),
  422: tr("The search is not valid"),
  429: tr("The service is busy"),
  503: tr("The collection is currently unavailable"),
};

/** Send a request and return its response; raises ApiError for a problem. */
export async function request(address, options) {
  let response;
  try {
    response = await session.fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (options.body instanceof FormData) await checkReadable(options.body);
    throw new ApiError(tr("The service does not respond"), tr("Check that cbir serve is still running, then search again."), true);
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const title = TITLES[response.status] ?? tr("The search failed");
  const message = problemText(problem, response.status);
  const temporary = [401, 429].includes(response.status) || response.status >= 500; // 401: the login is asked for again
  throw new ApiError(title, message, temporary, response.status);
}

/** Raise ApiError for a file that has changed, or is gone, since it was chosen. */
async function checkReadable(form) {
  for (const file of form.getAll("image")) {
    await file.slice(0, 1).arrayBuffer().catch(() => {
      throw new ApiError(tr("The file cannot be read"), tr("It has changed or moved since you chose it. Choose it again."));
    });
  }
}

/** The form fields of a query by files. */
export function form(query) {
  const fields = new FormData();
  for (const file of query.files ?? [query.file]) fields.append("image", file, "image"); // without its name, which may be a patient's
  if (query.frame > 1) fields.set("frame", query.frame);
  for (const name of ["window", "region"]) {
    if (query[name]) fields.set(name, query[name].join(","));
  }
  return fields;
}

/** Search with a query {image | text | file, frame, window, region} and {k, rerank, parameters: {}, where: [], feedback: []}, group_by, group_size and same_patient if given. */
export async function search(query, params, signal) {
  let options;
  const collection = current();
  if (query.image || query.text) {
    const fields = { ...(query.image ? { image_id: query.image } : { text: query.text }), ...params };
    if (!params.feedback.length) delete fields.feedback;
    if (!Object.keys(params.parameters).length) delete fields.parameters;
    if (query.region) fields.region = query.region;
    if (collection) fields.collection = collection;
    const body = JSON.stringify(fields);
    options = { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
  } else {
    const fields = form(query);
    fields.set("k", params.k);
    fields.set("rerank", params.rerank);
    if (params.feedback.length) fields.set("feedback", JSON.stringify(params.feedback));
    if (collection) fields.set("collection", collection);
    for (const name of ["group_by", "group_size", "same_patient", "anywhere", "federated"]) {
      if (params[name]) fields.set(name, params[name]);
    }
    for (const [name, value] of Object.entries(params.parameters)) fields.append("parameters", `${name}=${value}`);
    for (const condition of params.where) fields.append("where", condition);
    options = { method: "POST", body: fields, signal };
  }
  options.headers = Object.assign({}, options.headers, ...callParts("searchHeaders"));
  const response = await request("/v1/search", options);
  const answer = await response.json();
  callParts("receive", answer, response);
  return answer;
}

/**
 * Render the file of a query as a picture {blob, size, windowing, frames, spacing, modality}; windowing is null for an
 * image without a window, spacing {rows, columns} in mm null where it is unknown.
 */
export async function render(query, signal) {
  const response = await request("/v1/render", { method: "POST", body: form({ ...query, files: null }), signal });
  return { blob: await response.blob(), ...imageFacts(response.headers) };
}

/** Load a picture of an image in the collection as `render` does, in a window if one is given; size is null for a thumbnail. */
export async function picture(image, { window, region } = {}, signal) {
  const response = await request(imageAddress(image, "/picture", { window, region }), { signal });
  return { blob: await response.blob(), ...imageFacts(response.headers) };
}

/** Load the record of an image in the collection. */
export async function record(image, signal) {
  return (await request(imageAddress(image), { signal })).json();
}

/** Load the records of the images of a study and series. */
export async function imagesOf({ study, series }, signal) {
  const items = [];
  let cursor = "";
  do {
    const fields = { study, series, sort: "slices", limit: 1000, ...(cursor && { cursor }), ...(current() && { collection: current() }) };
    const page = await (await request(`/v1/images?${new URLSearchParams(fields)}`, { signal })).json();
    items.push(...page.items);
    cursor = page.next;
  } while (cursor !== null);
  return items;
}

/** Load the page of a collection as HTML text. */
export async function loadPage(collection, signal) {
  return (await request(`/?${new URLSearchParams({ collection })}`, { signal })).text();
}
