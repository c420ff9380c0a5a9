// Large pictures in a dialog, one or two beside each other, to zoom; arrow keys go on to the next.

import { tr } from "../translate.js";
import { html, nothing, render } from "../vendor/lit.js";
import "./viewer.js";

const figure = ({ source, caption }) => html`<figure><cbir-viewer tools="window zoom" wheel-zooms label=${caption} .linked=${"large"} .source=${source}></cbir-viewer>
  <figcaption>${caption}</figcaption></figure>`;

/** Open the dialog with views, lists of one or two {source, caption}, at a position; resolves when it is closed. */
export function openPictures(views, position = 0) {
  const place = document.body.appendChild(document.createElement("div"));
  const press = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.target.closest("input")) return;
    if (step && !event.shiftKey) go(step);
    else if (!place.querySelector("cbir-viewer").press(event)) return;
    event.preventDefault();
  };
  const go = (by) => {
    position = Math.min(Math.max(position + by, 0), views.length - 1);
    const shown = views[position];
    const step = (each, words) => html`<button class="button small" type="button" ?disabled=${!views[position + each]} @click=${() => go(each)}>${words}</button>`;
    render(html`<dialog class="compare" id="large" aria-label=${tr("Large picture")} @keydown=${press}>
      <header><h2>${tr("Large picture")}</h2><form method="dialog"><button class="button small">${tr("Close")}</button></form>
        ${views.length > 1 ? html`<div class="buttons">${step(-1, tr("Back"))}${step(1, tr("Next"))}</div>` : nothing}</header>
      <div class=${`panes${shown.length === 1 ? " single" : ""}`}>${shown.map(figure)}</div></dialog>`, place);
  };
  go(0);
  place.firstElementChild.showModal();
  return new Promise((resolve) => place.firstElementChild.addEventListener("close", resolve)).then(() => place.remove());
}
