// What went wrong, for the user: failed requests, files that cannot be searched with, and problems of the service in the language of the page.

import { language, number as format, tr, trn } from "./translate.js";

/** What went wrong; title and message are for the user, temporary is true if trying again may help; status and type (RFC 9457) are those of a response, else 0 and "". */
export class Problem extends Error {
  constructor(title, message, temporary = false, status = 0, type = "") {
    super(message);
    Object.assign(this, { title, temporary, status, type });
  }
}

const UNITS = ["KiB", "MiB", "GiB", "TiB"];

/** A number of bytes in words: "64 MiB". */
export function size(bytes) {
  if (bytes < 2 ** 10) return trn("{count} byte", "{count} bytes", bytes);
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), UNITS.length);
  const amount = bytes / 2 ** (10 * power);
  return `${format(amount, { maximumFractionDigits: amount < 10 ? 1 : 0 })} ${UNITS[power - 1]}`;
}

/** A message of the service, which does not know the names of files, with those of a query {file, files}. */
export function withFileNames(message, { file, files }) {
  return message
    .replace(/\bthe image sent\b/gi, () => file.name)
    .replace(/\bimage (\d+) of \d+\b/gi, (text, number) => files?.[number - 1]?.name ?? text);
}

const TITLES = {
  401: tr("You are no longer logged in"),
  403: tr("The service refused the request"),
  404: tr("Not in the collection"),
  410: tr("The file of this image is gone"),
  413: tr("The image is too large"),
  415: tr("This is not an image"),
  422: tr("This cannot be searched"),
  429: tr("The service is busy"),
  503: tr("The collection is currently unavailable"),
};

const TEXTS = {
  malformed: tr("The service cannot read the request."),
  unauthorized: tr("Log in first."),
  forbidden: tr("Your rights do not cover this."),
  "not-found": tr("It does not exist, or you may not see it."),
  "too-slow": tr("The request took too long. Send it again; with a smaller image if the connection is slow."),
  conflict: tr("It has changed in the meantime."),
  "source-gone": tr("The file of this image is no longer where it was."),
  "changed-meanwhile": tr("Its labels have changed in the meantime. Load it again."),
  "too-large": tr("Choose fewer or smaller images."),
  "media-type": tr("The service does not accept files of this kind."),
  "invalid-input": tr("One of the values is not valid."),
  "unreadable-image": tr("The file cannot be read as an image. Export it again as PNG, JPEG, TIFF, BMP, DICOM or NIfTI, and smaller if it is large."),
  "too-many-requests": tr("Wait a little, then try again."),
  unexpected: tr("The service ran into an unexpected error; its log says where."),
  "not-ready": tr("The collection cannot be opened at the moment."),
  "no-resources": tr("The service has no memory or files left. Wait a little, then try again."),
  "collection-busy": tr("Another process is writing to the collection. Wait a little, then try again."),
  "collection-damaged": tr("Files of the collection are damaged. Tell the administrator of the service."),
  "database-unavailable": tr("The database of the collection does not answer. Wait a little, then try again."),
  "index-unavailable": tr("The index of the images does not answer. Wait a little, then try again."),
  "state-unavailable": tr("The service cannot read or write its state. Tell the administrator of the service."),
  "query-timeout": tr("The search took too long and was cancelled."),
  "storage-full": tr("The disk of the service is full. Tell the administrator of the service."),
};

/** The problem (RFC 9457) of a response with an error status. */
export async function problemIn(response) {
  const { status } = response;
  const body = await response.json().catch(() => ({}));
  return new Problem(TITLES[status] ?? tr("The search failed"), problemText(body, status), [401, 429].includes(status) || status >= 500, status, body.type); // 401: the login is asked for again
}

export function problemText({ type = "", detail }, status) {
  const text = TEXTS[type.split("#").at(-1)];
  const given = detail && sentence(detail);
  if (language !== "en" && text) return given ? `${text} (${given})` : text;
  return given ?? tr("The service responded with status {status}.", { status: String(status) });
}

export function sentence(text) {
  const capitalised = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?。]$/.test(capitalised) ? capitalised : `${capitalised}.`;
}
