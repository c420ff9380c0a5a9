// What a text in the box, or one that is pasted or dropped, stands for. Without the document.

import { queryOf } from "./search_fields.js";

const ID = /^[0-9a-f]{8,64}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const UID = /^\d+(\.\d+){3,}$/;

/** What a text of the box is: {kind: "page", params} or {kind: "image", id} of this service, {kind: "site"}, {kind: "uid"} or {kind: "words"}. */
export function kindOf(text, here) {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) {
    const link = new URL(text);
    if (link.origin !== here) return { kind: "site", host: link.host };
    const image = /^\/v1\/(?:collections\/([^/]+)\/)?images\/([^/]+)/.exec(link.pathname);
    if (image) return { kind: "image", collection: decodeURIComponent(image[1] ?? link.searchParams.get("collection") ?? ""), id: decodeURIComponent(image[2]) };
    const params = Object.fromEntries(link.searchParams);
    return link.pathname === "/" && queryOf(params) ? { kind: "page", params, search: link.search } : { kind: "other", path: link.pathname + link.search };
  }
  if (ID.test(text)) return { kind: "image", collection: "", id: text.toLowerCase() };
  if (UID.test(text)) return { kind: "uid", uid: text };
  return { kind: "words" };
}
