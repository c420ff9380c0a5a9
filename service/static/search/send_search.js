// Requests of searches. A file is sent once: later searches with it send the vector that came with its first answer.

import { addressIn, formBody, jsonBody, request } from "../api.js";
import { isShownByBrowser } from "../file_kind.js";
import { callParts } from "../page_state.js";
import { keepValues } from "../viewer/picture_source.js";

const OF_SETTINGS = ["cards", "before"]; // in `include`; the rest is of the picture, and came with the first answer

const sent = new WeakMap(); // {part, vector, profile, origin, extras} of the queries whose files were sent

/** What is searched with where; with another part, or in another collection, the file is sent again. */
const partOf = ({ files, frame, window, region }, collection) => JSON.stringify([collection, files?.length, frame, window, region]);

/** A field of a search as texts of a form. */
function textOf([name, value]) {
  if (name === "parameters" && value) return [name, Object.entries(value).map(([key, number]) => `${key}=${number}`)];
  return [name, typeof [value].flat()[0] === "object" ? JSON.stringify(value) : value];
}

const upload = (query, fields) => formBody(query, Object.fromEntries(Object.entries(fields).map(textOf)));

async function includedOf(query, fields) {
  if (fields.federated || fields.same_patient || fields.anywhere) return fields.include;
  const isShown = query.region || (await isShownByBrowser(query.file));
  return [...(fields.include ?? []), "vector", ...(isShown ? [] : ["pixels"])];
}

/** The options of the request of a query {image | text | file ...} with these fields; known: what was kept of its file, else null. */
async function optionsOf(query, fields, known) {
  if (query.image) return jsonBody({ image_id: query.image, ...(query.region && { region: query.region }), ...fields });
  if (query.text) return jsonBody({ text: query.text, ...fields });
  if (!known) return upload(query, { ...fields, include: await includedOf(query, fields) });
  const { vector, profile, origin } = known;
  return jsonBody({ vector, profile, origin, ...fields, include: fields.include?.filter((name) => OF_SETTINGS.includes(name)) });
}

/** What was kept of the file of a query with which these fields can be searched; null if it has to be sent. */
function keptOf(query, fields, part) {
  if (!query.file || fields.anywhere || fields.federated || fields.same_patient) return null;
  const kept = sent.get(query.files ?? query.file);
  return kept?.part === part ? kept : null;
}

/**
 * Search and return the answer. collection: its name; onProgress(share): while a file is sent.
 * Of a file the answer has everything that is shown: the values of its picture are kept for the viewer.
 */
export async function sendSearch(query, fields, { collection, signal, onProgress }) {
  const part = query.file && partOf(query, collection);
  const known = keptOf(query, fields, part);
  const options = await optionsOf(query, fields, known);
  const isUpload = options.body instanceof FormData;
  const headers = Object.assign({}, options.headers, ...callParts("searchHeaders"));
  const response = await request(addressIn(collection, "search"), { ...options, headers, signal, ...(isUpload && { onProgress }) }).catch((error) => {
    if (known && error.status === 422) sent.delete(query.files ?? query.file); // the collection may have another profile by now
    throw error;
  });
  const answer = await response.json();
  if (known) answer.extras = { ...known.extras, ...answer.extras };
  callParts("receive", answer, response);
  const { vector, profile, origin, pixels } = answer.query;
  if (isUpload && vector) sent.set(query.files ?? query.file, { part, vector, profile, origin, extras: answer.extras });
  if (isUpload && pixels && !query.region) keepValues({ file: query.file, frame: query.frame }, pixels);
  for (const name of ["vector", "pixels"]) delete answer.query[name]; // large, and not for files that are saved
  return answer;
}
