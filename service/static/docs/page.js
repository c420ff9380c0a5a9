// The page /docs: fills in lines and forms, and sends what is tried.

import { byId } from "../dom.js";
import { showAnswer, summary } from "./answer.js";
import { curlLine } from "./curl.js";
import { readBody, readInputs, showBody } from "./form.js";
import { clientLines, showLine, updateCurl, wireCopying } from "./lines.js";
import { pythonWithMaker, readMaker } from "./makers.js";
import { buildRequest, replaceExamples } from "./request.js";
import { credentials, send } from "./send.js";

const known = JSON.parse(document.body.dataset.values);
const needsToken = document.body.dataset.tokens === "true";

const typedToken = () => byId("token")?.value.trim() ?? "";

function fillExamples(operation, form, maker) {
  const values = "chosen" in form.dataset ? {} : (maker?.others ?? known); // a form must not change what is not meant
  for (const input of form.querySelectorAll("input[value], textarea")) input.value = replaceExamples(input.value, values);
  for (const code of operation.querySelectorAll('[data-line="python"] code')) code.textContent = pythonWithMaker(replaceExamples(code.textContent, values), maker);
}

async function loadBlob(address) {
  const response = await fetch(address, { headers: credentials(typedToken()) });
  if (!response.ok) throw new Error(response.status);
  return response.blob();
}

async function tryIt(form, box, output) {
  const request = buildRequest(form.dataset, readInputs(form), readBody(form));
  if (request.body?.files?.some((file) => typeof file === "string")) {
    output.textContent = "Choose a file first.";
    form.querySelector('[data-body="file"] input').focus();
    return;
  }
  if (form.dataset.confirm && !confirm(`${form.dataset.confirm}\n\n${request.method} ${request.path}`)) {
    output.textContent = "Not sent.";
    return;
  }
  output.textContent = "Sending …";
  try {
    const { response, milliseconds } = await send(request, typedToken());
    const blob = await response.blob();
    output.textContent = summary(response, milliseconds, blob.size);
    await showAnswer(box, response, blob, loadBlob);
  } catch {
    output.textContent = "The service does not respond.";
  }
}

function wire(operation) {
  const form = operation.querySelector("form");
  const maker = readMaker(form, known);
  fillExamples(operation, form, maker);
  const update = () => {
    if (form.querySelector("[data-media]")) showBody(form);
    updateCurl(operation, maker);
  };
  update();
  form.addEventListener("input", update);
  form.addEventListener("change", update);
  const button = form.querySelector("[type=submit]");
  button.disabled = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    await tryIt(form, operation.querySelector(".answer"), form.querySelector("output"));
    button.disabled = false;
  });
}

function openNamed() {
  const named = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  if (named?.tagName !== "DETAILS") return;
  named.open = true;
  named.scrollIntoView();
}

function showLacking() {
  for (const note of document.querySelectorAll("[data-lacking]")) note.parentElement.querySelector(".try").hidden = !typedToken();
}

for (const operation of document.querySelectorAll(".operation")) wire(operation);
const picture = replaceExamples(document.querySelector("#picture form [data-in=path]").value, known);
const lineOptions = { origin: location.origin, token: needsToken, output: "query.png" };
const query = { method: "GET", path: `/v1/images/${picture}/picture`, headers: [], body: null };
showLine(document.querySelector('[data-line="query"]'), curlLine(query, lineOptions));
const slice = { method: "GET", path: "/docs/slice.dcm", headers: [], body: null };
showLine(document.querySelector('[data-line="slice"]'), curlLine(slice, { ...lineOptions, output: "slice.dcm" }));
showLine(document.querySelector('[data-line="client"]'), clientLines(location.origin, needsToken));
wireCopying(document);
byId("token")?.addEventListener("input", showLacking);
addEventListener("hashchange", openNamed);
openNamed();
