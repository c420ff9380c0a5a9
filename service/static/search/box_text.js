// What a text in the box, or one that is pasted or dropped, stands for. Without the document.

import { queryOf } from "./search_fields.js";

const ID = /^[0-9a-f]{8,64}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const UID = /^\d+(\.\d+){3,}$/;

/** A part of a path, as it is where it is no valid code. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** What a text of the box is: {kind: "page", params} or {kind: "image", id} of this service, {kind: "other", address} for its other pages, {kind: "site"}, {kind: "uid"} or {kind: "words"}. */
export function kindOf(text, here) {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) {
    const link = new URL(text);
    if (link.origin !== here) return { kind: "site", host: link.host };
    const image = /^\/v1\/(?:collections\/([^/]+)\/)?images\/([^/]+)/.exec(link.pathname);
    if (image) return { kind: "image", collection: image[1] ? decoded(image[1]) : (link.searchParams.get("collection") ?? ""), id: decoded(image[2]) };
    const params = Object.fromEntries(link.searchParams);
    return link.pathname === "/" && queryOf(params) ? { kind: "page", params, search: link.search } : { kind: "other", address: link.href };
  }
  if (ID.test(text)) return { kind: "image", collection: "", id: text.toLowerCase() };
  if (UID.test(text)) return { kind: "uid", uid: text };
  return { kind: "words" };
}
