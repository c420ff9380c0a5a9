// The collection that is searched, and the addresses of its images.

import { byId } from "./dom.js";

const PARTS = ["facts", "pages", "filter-field", "keys", "where-hint", "group-field", "start", "text-field", "invitation"]; // depend on the collection

/** The name of the current collection; "" if the service has only one. */
export function current() {
  return byId("query").dataset.collection ?? "";
}

/** The given name, or that of the first collection if it is empty; "" if the service has only one. */
export function nameOrDefault(name) {
  return byId("collection") ? name || byId("collection").options[0].value : "";
}

/** The address of an image, or of a part of it such as "/picture". */
export function imageAddress(image, part = "", { collection = current(), region, window } = {}) {
  const query = new URLSearchParams();
  if (collection) query.set("collection", collection);
  if (region) query.set("region", region.join(","));
  if (window) query.set("window", window.join(","));
  const text = query.toString();
  return `/v1/images/${encodeURIComponent(image)}${part}${text && `?${text}`}`;
}

/** True for a collection of CT series, whose queries are series too. */
export function isOfSeries() {
  return Boolean(byId("invitation").querySelector("[data-series]"));
}

/** Switch to another collection; `html` is the text of its own page, whose parts replace those of this one. */
export function switchTo(name, html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  if (!page.getElementById("start")) throw new Error("not the page of a collection");
  for (const id of [...PARTS, ...[...document.querySelectorAll("[data-of-collection]")].map((part) => part.id)]) {
    const part = page.getElementById(id);
    byId(id).replaceChildren(...part.childNodes);
    if (id === "filter-field" || id === "text-field") byId(id).hidden = part.hidden;
  }
  byId("query").dataset.collection = name;
  byId("collection").value = name;
}
