// The form of an operation: what it holds, and which of its fields apply.

import { splitValues } from "./request.js";

/** Read the parameters of a form as inputs of `buildRequest`. */
export function readInputs(form) {
  return [...form.querySelectorAll("[data-in]")].map((input) => ({
    name: input.name,
    in: input.dataset.in,
    inForm: "inForm" in input.dataset,
    values: splitValues(input.value, "repeated" in input.dataset),
  }));
}

/** Read the body of a form: `files` holds the chosen ones, or the names of examples if there are none. */
export function readBody(form) {
  const chosen = form.querySelector("[data-media]")?.selectedOptions[0];
  if (!chosen) return null;
  const [kind, media] = [chosen.dataset.kind, chosen.value];
  if (kind === "json") return { kind, media, text: form.querySelector('[data-body="json"] textarea').value.trim() };
  const input = form.querySelector('[data-body="file"] input');
  return { kind, media, files: input.files.length ? [...input.files] : [input.dataset.name] };
}

/** Show the input for the chosen kind of body. */
export function showBody(form) {
  const body = readBody(form);
  for (const field of form.querySelectorAll("[data-body]")) field.hidden = (field.dataset.body === "json") !== (body.kind === "json");
}

/** The same body with the names of its files in place of them, as a line shows it. */
export function withFileNames(body) {
  return body?.files ? { ...body, files: body.files.map((file) => file.name ?? file) } : body;
}
