// A request of the API as plain data, made of what a form holds.

/**
 * Build a request {method, path, headers, body}.
 *
 * operation: {method, path} with parameters of the path in braces. inputs: [{name, in, values, inForm}], where inForm is
 * true for parameters that a form body may hold. body: null, {kind: "json", media, text} or {kind, media, files} with
 * the kinds form, file and related.
 */
export function buildRequest(operation, inputs, body) {
  const inJson = body?.kind === "json" ? namesOf(body.text) : [];
  const given = inputs.filter(({ values, name, inForm }) => values.length && !(inForm && inJson.includes(name)));
  const of = (place) => given.filter((input) => input.in === place);
  let path = operation.path;
  for (const { name, values } of of("path")) path = path.replace(`{${name}}`, encodeURIComponent(values[0]));
  const inForm = ({ inForm }) => inForm && body?.kind === "form";
  const query = new URLSearchParams(pairs(of("query").filter((input) => !inForm(input))));
  const form = pairs([...of("query").filter(inForm), ...of("form")]);
  return {
    method: operation.method,
    path: query.size ? `${path}?${query}` : path,
    headers: pairs(of("header")),
    body: body && (body.kind === "form" ? { ...body, fields: form } : body),
  };
}

/** The names in a JSON object, none for other text: they are not sent a second time in the address. */
function namesOf(text) {
  try {
    return Object.keys(JSON.parse(text));
  } catch {
    return [];
  }
}

function pairs(inputs) {
  return inputs.flatMap(({ name, values }) => values.map((value) => [name, value]));
}

/** The media type of a body that is a file: image/* stands for any image, such as PNG. */
export function fileType(media) {
  return media === "image/*" ? "image/png" : media;
}

/** Split what an input holds into values: one for each line that is not empty if it is `repeated`. */
export function splitValues(text, repeated) {
  const values = repeated ? text.split("\n").map((line) => line.trim()) : [text.trim()];
  return values.filter((value) => value !== "");
}

/** Replace the example ids in `text` by the known ones {example: known}. */
export function replaceExamples(text, known) {
  return Object.entries(known).reduce((filled, [example, value]) => filled.replaceAll(example, value), text);
}
