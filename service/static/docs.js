// The page /docs: Swagger UI over /openapi.json. Requests go to this service only.

import { install } from "./theme.js";

const csrf = document.querySelector('meta[name="csrf"]')?.content; // absent without a login
const root = document.documentElement;
let question = null; // of the operation that is about to be sent

const followTheme = () => root.classList.toggle("dark-mode", root.dataset.theme !== "light");

/** Leave inputs empty that may be left out: Swagger UI would fill them with their examples, and send these. */
function emptyOptionalInputs(text) {
  const document = JSON.parse(text, (name, value) => (name === "contentMediaType" && value === "application/json" ? undefined : value)); // else it asks for a file
  for (const operation of Object.values(document.paths).flatMap(Object.values)) {
    for (const parameter of operation.parameters ?? []) {
      if (parameter.required || parameter.example === undefined) continue;
      describeExample(parameter, parameter.example);
      delete parameter.example;
    }
    const form = operation.requestBody?.content["multipart/form-data"]?.schema;
    for (const [name, field] of Object.entries(form?.properties ?? {})) {
      const isFile = [field, field.items].some((schema) => schema?.format === "binary");
      if (form.required?.includes(name) && !isFile) continue;
      if (field.examples && !isFile) describeExample(field, field.examples[0]);
      field.examples = [field.type !== "array" ? "" : isFile ? [""] : []]; // one place for a file
    }
  }
  return JSON.stringify(document);
}

function describeExample(field, example) {
  field.description = `${field.description ?? ""}\n\nExample: \`${typeof example === "string" ? example : JSON.stringify(example)}\``;
}

function noteQuestion(original) {
  return (request) => {
    question = request.operation.get("x-confirm");
    return original(request);
  };
}

/** Ask before a change, send as this page, without empty fields and without names of files, which may be a patient's. */
function prepare(request) {
  const asked = question;
  question = null;
  if (asked && !confirm(`${asked}\n\n${request.method} ${new URL(request.url, location).pathname}`)) {
    request.userFetch = () => Promise.reject(new Error("Not sent."));
  }
  const authorized = Object.keys(request.headers).some((name) => name.toLowerCase() === "authorization");
  if (csrf && !authorized) request.headers["X-CSRF-Token"] = csrf;
  if (request.body instanceof FormData) request.body = reduced(request.body);
  return request;
}

function reduced(form) {
  const kept = new FormData();
  for (const [name, value] of form) {
    if (value instanceof File) kept.append(name, value, "image");
    else if (value !== "") kept.append(name, value);
  }
  return kept;
}

/** Searching comes first, what machines ask last. */
const placeOf = (tag) => (tag === "search" ? 0 : ["dicomweb", "service"].indexOf(tag) + 2);

install();
followTheme();
new MutationObserver(followTheme).observe(root, { attributeFilter: ["data-theme"] });
SwaggerUIBundle({
  dom_id: "#api",
  url: "/openapi.json",
  layout: "BaseLayout",
  deepLinking: true,
  displayOperationId: true,
  docExpansion: "list",
  filter: true,
  tagsSorter: (one, other) => placeOf(one) - placeOf(other) || one.localeCompare(other),
  showExtensions: true, // scopes and lines of the Python client
  validatorUrl: null, // a service elsewhere
  requestInterceptor: prepare,
  plugins: [() => ({ statePlugins: { spec: { wrapActions: { executeRequest: noteQuestion, updateSpec: (original) => (text) => original(emptyOptionalInputs(text)) } } } })],
});
