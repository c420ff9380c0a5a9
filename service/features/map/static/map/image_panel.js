// The small picture beside the pointer, and the panel of the image that was chosen.

import { byId, element, replaceIfMissing } from "../dom.js";
import { searchAddress } from "./map_address.js";
import { loadRecord, thumbnail } from "./requests.js";

const GAP = 14; // pixels between pointer and picture
let previewed = null;
let opened = null;

/** Show the thumbnail of an image beside a point of the map; null hides it. */
export function preview(image, point) {
  const box = byId("preview");
  box.hidden = !image;
  if (!image) {
    previewed = null;
    return;
  }
  if (previewed !== image.id) {
    previewed = image.id;
    const picture = element("img");
    Object.assign(picture, { alt: "", src: thumbnail(image.id) });
    box.replaceChildren(picture, element("span", "", image.title));
    replaceIfMissing(picture);
  }
  const { width, height } = box.parentElement.getBoundingClientRect();
  const [x, y] = point;
  box.style.left = `${x > width / 2 ? Math.max(0, x - GAP - box.offsetWidth) : x + GAP}px`;
  box.style.top = `${Math.max(0, Math.min(y + GAP, height - box.offsetHeight))}px`;
}

/** Open the panel of an image; its labels come later. */
export async function openImage(image, collection) {
  opened = image.id;
  const picture = element("img");
  Object.assign(picture, { alt: image.title, src: thumbnail(image.id) });
  byId("image-picture").replaceChildren(picture);
  replaceIfMissing(picture);
  byId("image-search").href = searchAddress(collection, image.id);
  byId("image-labels").replaceChildren();
  byId("image-panel").hidden = false;
  const { labels } = await loadRecord(image.id);
  if (opened !== image.id) return;
  const facts = Object.entries(labels).flatMap(([key, value]) => [element("dt", "", key), element("dd", "", value)]);
  byId("image-labels").replaceChildren(...facts);
}

export function closeImage() {
  opened = null;
  byId("image-panel").hidden = true;
}
