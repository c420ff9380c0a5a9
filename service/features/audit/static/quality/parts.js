// Parts of the findings: rows of pictures, tables, bars.

import { imageAddress } from "../api.js";
import { card } from "../card.js";
import { state } from "../page_state.js";
import { html, nothing } from "../vendor/lit.js";

/** A picture {id, caption, kind} that leads to a search with it. */
function image({ id, caption = "", kind = "" }) {
  const { in_links: collection } = state.facts;
  const hit = { image_id: id, card: { finding: caption }, links: { thumbnail: imageAddress(collection, id, "/thumbnail") } };
  return html`<li class=${kind}>${card(hit, { href: `/?${new URLSearchParams({ image: id, ...(collection && { collection }) })}` })}</li>`;
}

/** A finding: pictures {id, caption, kind} below a title, with what can be done about it. */
export function finding(title, images, { below = nothing, kind = "", isFocusable = false } = {}) {
  return html`<article class=${`finding ${kind}`} tabindex=${isFocusable ? 0 : nothing} aria-label=${title}><strong>${title}</strong><ul class="strip" role="list">${images.map(image)}</ul>${below}</article>`;
}

/** A table; cells are texts or templates. */
export function table(heads, lines) {
  return html`<div class="wide"><table><thead><tr>${heads.map((text) => html`<th scope="col">${text}</th>`)}</tr></thead>
    <tbody>${lines.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** A horizontal bar of this share of the widest. */
export const bar = (share) => html`<div class="bar-cell"><span .style=${`width: ${Math.max(100 * share, 0.5)}%`}></span></div>`;
