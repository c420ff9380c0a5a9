// Large pictures in a dialog, one or two beside each other, to zoom; arrow keys go on to the next.

import { byId, element } from "/static/dom.js";
import "/static/viewer/viewer.js";
import { sliceOf } from "./stage.js";

let isInstalled = false;
let views = []; // lists of {id, caption}
let position = 0;

function figureOf({ id, caption }) {
  const viewer = document.createElement("cbir-viewer");
  Object.assign(viewer, { tools: ["window", "zoom"], label: caption, linked: "large" });
  viewer.setAttribute("wheel-zooms", "");
  const figure = element("figure", "", viewer, element("figcaption", "", caption));
  viewer.source = { kind: "address", ...sliceOf(id) };
  return figure;
}

function draw() {
  byId("large-panes").replaceChildren(...views[position].map(figureOf));
  byId("large-panes").classList.toggle("single", views[position].length === 1);
  byId("large-back").disabled = position === 0;
  byId("large-next").disabled = position === views.length - 1;
}

function go(step) {
  position = Math.min(Math.max(position + step, 0), views.length - 1);
  draw();
}

function install() {
  isInstalled = true;
  byId("large-back").addEventListener("click", () => go(-1));
  byId("large-next").addEventListener("click", () => go(1));
  byId("large").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.target.closest("input")) return;
    if (step && !event.shiftKey) go(step);
    else if (!byId("large-panes").querySelector("cbir-viewer").press(event)) return;
    event.preventDefault();
  });
}

/** Open the dialog with views, lists of one or two {id, caption}, at a position; resolves when it is closed. */
export function openPictures(newViews, start = 0) {
  if (!isInstalled) install();
  [views, position] = [newViews, start];
  for (const id of ["large-back", "large-next"]) byId(id).hidden = views.length < 2;
  byId("large").showModal();
  draw();
  return new Promise((resolve) => byId("large").addEventListener("close", resolve, { once: true }));
}
