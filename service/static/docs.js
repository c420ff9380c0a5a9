// The page /docs: Swagger UI over /openapi.json. Requests go to this service only.

const csrf = document.querySelector('meta[name="csrf"]')?.content; // absent without a login
const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** Let Swagger UI follow the theme of the pages. */
function followTheme() {
  root.classList.toggle("dark-mode", root.dataset.theme === "dark" || (root.dataset.theme !== "light" && systemDark.matches));
}

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
      field.examples = [field.type === "array" ? [] : ""];
    }
  }
  return JSON.stringify(document);
}

function describeExample(field, example) {
  field.description = `${field.description ?? ""}\n\nExample: \`${typeof example === "string" ? example : JSON.stringify(example)}\``;
}

/** Ask before a request that the description says to confirm. */
function askFirst(original, { specActions }) {
  return (request) => {
    const question = request.operation.get("x-confirm");
    if (!question || confirm(`${question}\n\n${request.method.toUpperCase()} ${request.pathName}`)) return original(request);
    return specActions.setResponse(request.pathName, request.method, { error: true, err: new Error("Not sent.") });
  };
}

/** Send a request as this page, and files without their names, which may be a patient's. */
function prepare(request) {
  const authorized = Object.keys(request.headers).some((name) => name.toLowerCase() === "authorization");
  if (csrf && !authorized) request.headers["X-CSRF-Token"] = csrf;
  if (request.body instanceof FormData) {
    const form = new FormData();
    for (const [name, value] of request.body) value instanceof File ? form.append(name, value, "image") : form.append(name, value);
    request.body = form;
  }
  return request;
}

/** Searching comes first, what machines ask last. */
function placeOf(tag) {
  return tag === "search" ? 0 : ["dicomweb", "service"].indexOf(tag) + 2;
}

followTheme();
systemDark.addEventListener("change", followTheme);
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
  plugins: [() => ({ statePlugins: { spec: { wrapActions: { executeRequest: askFirst, updateSpec: (original) => (text) => original(emptyOptionalInputs(text)) } } } })],
});
