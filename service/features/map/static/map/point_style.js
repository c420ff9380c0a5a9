// The look of every point, as bytes red, green, blue and shape for the graphics card. Without the document.

import { SHAPES } from "./groups.js";

export const HIDDEN = 255; // shape of points that are not drawn

const bytesOf = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/** Four bytes for each point of grouped images; `hidden` is a set of groups, all but `emphasised` are pale if it is not null. */
export function stylePoints({ groups, of }, hidden, emphasised, pale) {
  const looks = groups.map(({ colour, shape }, group) => [
    ...bytesOf(emphasised === null || emphasised === group ? colour : pale),
    hidden.has(group) ? HIDDEN : SHAPES.indexOf(shape),
  ]);
  const bytes = new Uint8Array(of.length * 4);
  of.forEach((group, point) => bytes.set(looks[group], point * 4));
  return bytes;
}
