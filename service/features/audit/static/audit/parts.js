// Parts of the findings: pictures, rows of them, tables.

import { element, replaceIfMissing } from "../dom.js";

const collection = () => document.getElementById("audit").dataset.collection;

/** The address of an endpoint, in the collection of the page. */
export const address = (path) => (collection() ? `${path}?${new URLSearchParams({ collection: collection() })}` : path);

/** A picture of an image that leads to a search with it, with a caption; kind: its class. */
export function figure(id, caption, kind = "") {
  const image = element("img");
  image.alt = caption || id; // the link needs a name
  image.loading = "lazy";
  image.src = address(`/v1/images/${encodeURIComponent(id)}/thumbnail`);
  replaceIfMissing(image);
  const link = element("a", "", image);
  link.href = `/?${new URLSearchParams({ image: id, ...(collection() && { collection: collection() }) })}`;
  return element("figure", kind, link, element("figcaption", "", caption));
}

/** A row of pictures below a title, with nodes below it. */
export function row(title, figures, ...below) {
  return element("article", "audit-row", element("strong", "", title), element("div", "audit-film", ...figures), ...below);
}

/** Rows beside and below each other. */
export const rows = (items) => element("div", "audit-rows", ...items);

/** A table; cells are texts or nodes. */
export function table(heads, lines) {
  const head = element("tr", "", ...heads.map((text) => element("th", "", text)));
  const body = lines.map((cells) => element("tr", "", ...cells.map((cell) => element("td", "", cell))));
  return element("div", "audit-wide", element("table", "", element("thead", "", head), element("tbody", "", ...body)));
}

/** A horizontal bar of this share of the widest. */
export function bar(share) {
  const inner = element("span");
  inner.style.width = `${Math.max(100 * share, 0.5)}%`;
  return element("div", "bar-cell", inner);
}
