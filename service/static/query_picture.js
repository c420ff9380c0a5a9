// The picture of the query and its caption.

import { byId } from "./dom.js";
import { tr } from "./translate.js";

const picture = byId("picture");

let address = null;

/** Show a blob or an address; resolves with the picture's {width, height} once it has loaded. */
export async function show(source, alt) {
  if (address) URL.revokeObjectURL(address);
  address = source instanceof Blob ? URL.createObjectURL(source) : null;
  picture.src = address ?? source;
  picture.alt = alt;
  picture.hidden = false;
  byId("invitation").hidden = true;
  await picture.decode();
  return { width: picture.naturalWidth, height: picture.naturalHeight };
}

/** Show the invitation instead of a picture. */
export function clear() {
  if (address) URL.revokeObjectURL(address);
  address = null;
  picture.hidden = true;
  picture.removeAttribute("src");
  byId("caption").hidden = true;
  byId("invitation").hidden = false;
}

export function caption(text) {
  byId("caption").textContent = text;
  byId("caption").hidden = false;
}

/** Show that the picture cannot be loaded. */
export function showMissing() {
  picture.hidden = true;
  caption(tr("Picture no longer available"));
}
