// A request as a line for a POSIX shell.

import { fileType } from "./request.js";

const SPECIAL = /^[@<"]|;/; // curl reads such fields of a form as the name of a file, or as options

/** The `curl` line of a request from `buildRequest`; options: {origin, token: whether it needs one, output: file or "", silent: without progress}. */
export function curlLine(request, { origin, token = false, output = "", silent = false }) {
  const { method, path, headers, body } = request;
  const parts = ["curl"];
  if (silent) parts.push("-s");
  if (method !== (body ? "POST" : "GET")) parts.push(`-X ${method}`);
  if (token) parts.push('-H "Authorization: Bearer $CBIR_TOKEN"');
  for (const [name, value] of headers) parts.push(`-H ${quote(`${name}: ${value}`)}`);
  if (body) parts.push(...bodyOptions(body));
  if (output) parts.push(`-o ${quote(output)}`);
  parts.push(quote(origin + path));
  return wrap(parts);
}

function bodyOptions(body) {
  switch (body.kind) {
    case "json":
      return [`-H ${quote(`Content-Type: ${body.media}`)}`, `-d ${quote(compact(body.text))}`];
    case "file":
      return [`-H ${quote(`Content-Type: ${fileType(body.media)}`)}`, `--data-binary ${quote(`@${body.files[0]}`)}`];
    case "related":
      return [
        `-H ${quote(`Content-Type: ${body.media}; type="application/dicom"`)}`,
        ...body.files.map((name) => `-F ${quote(`file=@${name};type=application/dicom`)}`),
      ];
    default:
      return [
        ...body.files.map((name) => `-F ${quote(`image=@${name}`)}`),
        ...body.fields.map(([name, value]) => `${SPECIAL.test(value) ? "--form-string" : "-F"} ${quote(`${name}=${value}`)}`),
      ];
  }
}

/** JSON on one line; other text as it is. */
function compact(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

/** Quote `text` for a shell, if it needs it. */
export function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function wrap(parts) {
  const line = parts.join(" ");
  if (line.length <= 90) return line;
  const [command, ...options] = parts; // the first option stays on the line of the command
  return `${command} ${options.join(" \\\n  ")}`;
}
