// Files that cannot be searched with.

import { number as format, trn } from "./translate.js";

/** title and message are for the user. */
export class InputError extends Error {
  constructor(title, message) {
    super(message);
    this.title = title;
  }
}

/** A number of bytes in words: "64 MiB". */
export function size(bytes) {
  if (bytes < 2 ** 10) return trn("{count} byte", "{count} bytes", bytes);
  const [unit, divisor] = bytes < 2 ** 20 ? ["KiB", 2 ** 10] : ["MiB", 2 ** 20];
  const amount = bytes / divisor;
  return `${format(amount < 10 ? Math.round(amount * 10) / 10 : Math.round(amount))} ${unit}`;
}

/** A message of the service, which does not know the names of files, with those of a query {file, files}. */
export function withFileNames(message, { file, files }) {
  return message
    .replace(/\bthe image sent\b/gi, () => file.name)
    .replace(/\bimage (\d+) of \d+\b/gi, (text, number) => files?.[number - 1]?.name ?? text);
}
