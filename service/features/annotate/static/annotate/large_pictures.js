// Large pictures in a dialog, one or two beside each other, to zoom; arrow keys go on to the next.

import "../viewer/viewer.js";
import { tr } from "../translate.js";
import { html, nothing, render } from "../vendor/lit.js";
import { sliceOf } from "./study_facts.js";

let place = null;

const figure = ({ id, caption }) => html`<figure><cbir-viewer tools="window zoom" wheel-zooms label=${caption} .linked=${"large"} .source=${{ kind: "address", ...sliceOf(id) }}></cbir-viewer>
  <figcaption>${caption}</figcaption></figure>`;

function draw(views, position) {
  const go = (step) => draw(views, Math.min(Math.max(position + step, 0), views.length - 1));
  const press = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.target.closest("input")) return;
    if (step && !event.shiftKey) go(step);
    else if (!place.querySelector("cbir-viewer").press(event)) return;
    event.preventDefault();
  };
  const step = (by, words) => html`<button class="button small" type="button" ?disabled=${!views[position + by]} @click=${() => go(by)}>${words}</button>`;
  render(
    html`<dialog class="compare" id="large" aria-label=${tr("Large picture")} @keydown=${press}>
      <header><h2>${tr("Large picture")}</h2>
        <form method="dialog"><button class="button small">${tr("Close")}</button></form>
        ${views.length > 1 ? html`<div class="buttons">${step(-1, tr("Back"))}${step(1, tr("Next"))}</div>` : nothing}
      </header>
      <div class=${`panes${views[position].length === 1 ? " single" : ""}`}>${views[position].map(figure)}</div>
    </dialog>`,
    place,
  );
}

/** Open the dialog with views, lists of one or two {id, caption}, at a position; resolves when it is closed. */
export function openPictures(views, position = 0) {
  if (!place) document.body.append((place = document.createElement("div")));
  draw(views, position);
  const dialog = place.querySelector("dialog");
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
}
