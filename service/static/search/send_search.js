// Requests of searches. A file is sent once: later searches with it send the vector that came with its first answer.

import { addressIn, form, jsonBody, request } from "../api.js";
import { callParts } from "../page_parts.js";
import { keepValues } from "../viewer/picture_source.js";

const sent = new WeakMap(); // {part, vector, profile, origin} of the queries whose files were sent

/** What of a file is searched with; with another part it is sent again. */
const partOf = ({ file, files, frame, window, region }) => [files?.length ?? 0, file.name, file.size, frame, window, region].join("|");

/** The text of fields of a form. */
function* texts(fields) {
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (Array.isArray(value) && typeof value[0] !== "object") for (const each of value) yield [name, each];
    else if (name === "parameters") for (const [key, number] of Object.entries(value)) yield [name, `${key}=${number}`];
    else yield [name, typeof value === "object" ? JSON.stringify(value) : value];
  }
}

function upload(query, fields) {
  const body = form(query);
  for (const [name, text] of texts(fields)) body.append(name, text);
  return { method: "POST", body };
}

/** The options of the request of a query {image | text | file ...} with these fields. */
function optionsOf(query, fields, { ofSeries }) {
  if (query.image) return jsonBody({ image_id: query.image, ...(query.region && { region: query.region }), ...fields });
  if (query.text) return jsonBody({ text: query.text, ...fields });
  const known = sent.get(query.files ?? query.file);
  if (known?.part === partOf(query) && !fields.anywhere && !fields.federated && !fields.same_patient) {
    const { vector, profile, origin } = known;
    return jsonBody({ vector, profile, origin, ...fields, include: fields.include?.filter((name) => name !== "grade") });
  }
  const include = fields.include && [...fields.include, ...(ofSeries || fields.federated || fields.same_patient ? [] : ["vector", "pixels"])];
  return upload(query, { ...fields, include });
}

/**
 * Search and return the answer. collection: its name; facts: of the collection; onProgress(share): while a file is sent.
 * Of a file the answer has everything that is shown: the values of its picture are kept for the viewer.
 */
export async function sendSearch(query, fields, { collection, facts, signal, onProgress }) {
  const options = optionsOf(query, fields, { ofSeries: facts.of_series });
  const isUpload = options.body instanceof FormData;
  const headers = Object.assign({}, options.headers, ...callParts("searchHeaders"));
  const response = await request(addressIn(collection, "search"), { ...options, headers, signal, ...(isUpload && { onProgress }) });
  const answer = await response.json();
  callParts("receive", answer, response);
  const { vector, profile, origin, pixels } = answer.query;
  if (isUpload && vector) sent.set(query.files ?? query.file, { part: partOf(query), vector, profile, origin });
  if (isUpload && pixels && !query.region) keepValues({ file: query.file, frame: query.frame }, pixels);
  for (const name of ["vector", "pixels"]) delete answer.query[name]; // large, and not for files that are saved
  return answer;
}
