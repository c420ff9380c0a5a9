// Small helpers for the document.

import { tr } from "./translate.js";

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** Create an element with a tag, a class name, and text or children. */
export function element(tag, className, ...content) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

/** Replace an image that fails to load by a text. */
export function replaceIfMissing(image) {
  const replace = () => image.replaceWith(element("span", "gone", tr("Picture no longer available")));
  if (image.getAttribute("src") && image.complete && !image.naturalWidth) replace();
  else image.addEventListener("error", replace, { once: true });
}
