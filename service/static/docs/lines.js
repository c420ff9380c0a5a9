// Lines to copy: they follow the forms, and each has a button.

import { copyText } from "../clipboard.js";
import { curlLine } from "./curl.js";
import { readBody, readInputs, withFileNames } from "./form.js";
import { withMaker } from "./makers.js";
import { buildRequest } from "./request.js";

const SHOWN_MS = 1500; // how long a button says that it has copied

/** Show `text` in the block of lines `block`. */
export function showLine(block, text) {
  block.querySelector("code").textContent = text;
}

/** Show the curl line of what the form of an operation holds. */
export function updateCurl(operation, maker = null) {
  const form = operation.querySelector("form");
  const request = buildRequest(form.dataset, readInputs(form), withFileNames(readBody(form)));
  const options = { origin: location.origin, token: form.dataset.token === "true", output: form.dataset.output };
  showLine(operation.querySelector('[data-line="curl"]'), withMaker(curlLine(request, options), maker, options));
}

/** The Python lines that make a client of this service. */
export function clientLines(origin, needsToken) {
  const lines = ["from cbir import Client", "", `client = Client("${origin}"${needsToken ? ', token=os.environ["CBIR_TOKEN"]' : ""})`];
  return (needsToken ? ["import os", "", ...lines] : lines).join("\n");
}

/** Let the buttons below `root` copy the lines beside them. */
export function wireCopying(root) {
  for (const button of root.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const copied = await copyText(button.closest("[data-line]").querySelector("code").textContent);
      button.textContent = copied ? "Copied" : "Not allowed";
      setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
    });
  }
}
