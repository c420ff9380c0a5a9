// The words of a tile. Without the document.

import { tr } from "../translate.js";

/** The main label of an image, and the value of the label that orders the images, or else its other labels. */
export function wordsOf({ labels, image_id }, sort) {
  const { label, ...others } = labels;
  const values = Object.values(others);
  const title = label ?? values.shift() ?? tr("image {name}", { name: image_id.slice(0, 8) });
  const key = sort.replace(/^-?label:/, "");
  if (key === sort || key === "label") return { title, more: values.join(" · ") };
  return { title, more: `${key}: ${labels[key] ?? tr("none")}` };
}
