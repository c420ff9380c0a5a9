// Files that cannot be searched with.

/** title and message are for the user. */
export class InputError extends Error {
  constructor(title, message) {
    super(message);
    this.title = title;
  }
}

/** A number of bytes in words: "64 MiB". */
export function size(bytes) {
  if (bytes < 2 ** 10) return `${bytes} bytes`;
  const [unit, divisor] = bytes < 2 ** 20 ? ["KiB", 2 ** 10] : ["MiB", 2 ** 20];
  const number = bytes / divisor;
  return `${number < 10 ? Math.round(number * 10) / 10 : Math.round(number)} ${unit}`;
}

/** A message of the service, which does not know the names of files, with those of a query {file, files}. */
export function withFileNames(message, { file, files }) {
  return message
    .replace(/\bthe image sent\b/gi, () => file.name)
    .replace(/\bimage (\d+) of \d+\b/gi, (text, number) => files?.[number - 1]?.name ?? text);
}
