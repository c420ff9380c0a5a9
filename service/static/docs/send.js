// Sending a request from the page, to this service only.

import { fileType } from "./request.js";

const BOUNDARY = "cbir-docs-boundary";
// Proves to the service that a request comes from its own page; absent without a login.
const csrf = document.querySelector('meta[name="csrf"]')?.content;

/** Headers that say who sends a request: the typed token, or the login of this page. */
export function credentials(token) {
  if (token) return { Authorization: `Bearer ${token}` };
  return csrf ? { "X-CSRF-Token": csrf } : {};
}

/** Send a request from `buildRequest` with a token or ""; returns {response, milliseconds}. */
export async function send(request, token) {
  const [type, content] = encode(request.body);
  const headers = { ...Object.fromEntries(request.headers), ...credentials(token) };
  if (type) headers["Content-Type"] = type;
  const started = performance.now();
  const response = await fetch(request.path, { method: request.method, headers, body: content, cache: "no-store" });
  return { response, milliseconds: performance.now() - started };
}

/** The content type, null where the browser sets it, and the content of a body. */
function encode(body) {
  switch (body?.kind) {
    case "json":
      return [body.media, body.text];
    case "file":
      return [body.media === "image/*" ? body.files[0].type || fileType(body.media) : body.media, body.files[0]];
    case "related":
      return [`${body.media}; type="application/dicom"; boundary=${BOUNDARY}`, related(body.files)];
    case "form":
      return [null, formData(body)];
    default:
      return [null, undefined];
  }
}

function formData({ files, fields }) {
  const data = new FormData();
  for (const file of files) data.append("image", file, "image"); // the file name is not sent: it may contain a patient's name
  for (const [name, value] of fields) data.append(name, value);
  return data;
}

function related(files) {
  const part = `--${BOUNDARY}\r\nContent-Type: application/dicom\r\n\r\n`;
  return new Blob([...files.flatMap((file) => [part, file, "\r\n"]), `--${BOUNDARY}--\r\n`]);
}
