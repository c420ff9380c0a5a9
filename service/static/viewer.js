// The picture of the query, with its caption.

const at = (id) => document.getElementById(id);
const picture = at("picture");

let address = null;

/** Show a blob or an address; resolves with the picture's own {width, height} once it is there. */
export async function show(source, words) {
  if (address) URL.revokeObjectURL(address);
  address = source instanceof Blob ? URL.createObjectURL(source) : null;
  picture.src = address ?? source;
  picture.alt = words;
  picture.hidden = false;
  at("invitation").hidden = true;
  await picture.decode();
  return { width: picture.naturalWidth, height: picture.naturalHeight };
}

/** Back to the invitation. */
export function clear() {
  picture.hidden = true;
  picture.removeAttribute("src");
  at("caption").hidden = true;
  at("invitation").hidden = false;
}

export function caption(text) {
  at("caption").textContent = text;
  at("caption").hidden = false;
}

/** Say that there is no picture. */
export function gone() {
  picture.hidden = true;
  caption("Picture no longer available");
}
