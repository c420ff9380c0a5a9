// The length of a line in an image.

import { fixed } from "./translate.js";

/** The length of a line of `right` by `down` pixels in words, in mm where the spacing {rows, columns} in mm is known. */
export function lengthText(right, down, spacing) {
  const pixels = `${Math.round(Math.hypot(right, down))} px`;
  if (!spacing) return pixels;
  return `${fixed(Math.hypot(right * spacing.columns, down * spacing.rows), 1)} mm (${pixels})`;
}
