// Large pictures in a dialog, one or two beside each other, to zoom; arrow keys go on to the next.

import { byId, element, replaceIfMissing } from "/static/dom.js";
import { Zoom } from "/static/zoom.js";

let zoom = null;
let views = []; // lists of {id, caption}
let position = 0;

function draw() {
  const images = views[position].map(({ id, caption }) => {
    const image = element("img", "");
    Object.assign(image, { alt: caption, draggable: false, src: `/annotate/images/${id}/picture` });
    return image;
  });
  byId("large-panes").replaceChildren(
    ...images.map((image, index) => {
      const pane = element("div", "pane", image);
      replaceIfMissing(image);
      return element("figure", "", pane, element("figcaption", "", views[position][index].caption));
    }),
  );
  byId("large-panes").classList.toggle("single", images.length === 1);
  zoom.images = images;
  zoom.reset();
  byId("large-back").disabled = position === 0;
  byId("large-next").disabled = position === views.length - 1;
}

function go(step) {
  position = Math.min(Math.max(position + step, 0), views.length - 1);
  draw();
}

function install() {
  zoom = new Zoom(byId("large-panes"), [], () => {});
  byId("large-back").addEventListener("click", () => go(-1));
  byId("large-next").addEventListener("click", () => go(1));
  byId("large-larger").addEventListener("click", () => zoom.larger());
  byId("large-smaller").addEventListener("click", () => zoom.smaller());
  byId("large").addEventListener("keydown", (event) => {
    const actions = { ArrowLeft: () => go(-1), ArrowRight: () => go(1), "+": () => zoom.larger(), "-": () => zoom.smaller(), 0: () => zoom.reset() };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });
}

/** Open the dialog with views, lists of one or two {id, caption}, at a position; resolves when it is closed. */
export function openPictures(newViews, start = 0) {
  if (!zoom) install();
  [views, position] = [newViews, start];
  for (const id of ["large-back", "large-next"]) byId(id).hidden = views.length < 2;
  byId("large").showModal();
  draw();
  return new Promise((resolve) => byId("large").addEventListener("close", resolve, { once: true }));
}
