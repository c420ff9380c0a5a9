// Shares of colour, texture and edges in the distance of a result, as bars.

import { element } from "../dom.js";
import { number, tr } from "../translate.js";

/** Names of the parts for people. */
function nameOf(part) {
  const names = { color_layout: tr("Colour"), tamura: tr("Texture"), edge_histogram: tr("Edges") };
  return names[part] ?? part;
}

/** The shares as [{name, share, text}], the largest first. */
export function partsOf(shares) {
  return Object.entries(shares)
    .map(([part, share]) => ({ name: nameOf(part), share, text: number(share, { style: "percent", maximumFractionDigits: 0 }) }))
    .sort((a, b) => b.share - a.share);
}

/** A list of bars with their names and shares. */
export function bars(shares) {
  const list = element("ul", "part-bars");
  list.setAttribute("role", "list");
  for (const { name, share, text } of partsOf(shares)) {
    const bar = element("span", "part-bar");
    bar.style.width = `${100 * share}%`;
    list.append(element("li", "", element("span", "part-name", name), element("span", "part-track", bar), element("span", "part-share", text)));
  }
  return list;
}
