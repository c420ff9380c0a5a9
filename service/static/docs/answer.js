// What the service answered to a request of the page: headers, body and pictures.

import { element } from "../dom.js";

const MAX_CHARACTERS = 200_000; // of a shown text
const MAX_PICTURES = 24;

/** One line about a response: status, time and size. */
export function summary(response, milliseconds, bytes) {
  const size = bytes < 1000 ? `${bytes} bytes` : `${(bytes / 1000).toFixed(1)} kB`;
  return `${response.status} ${response.statusText} · ${Math.round(milliseconds)} ms · ${size}`.replace("  ", " ");
}

/** The text of a body as it is shown: JSON on several lines, and not too much of it. */
export function readable(text, type) {
  let shown = text;
  if (type.includes("json")) {
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // shown as it is
    }
  }
  return shown.length > MAX_CHARACTERS ? `${shown.slice(0, MAX_CHARACTERS)}\n… ${shown.length - MAX_CHARACTERS} more characters` : shown;
}

/** Addresses of the thumbnails that a JSON value names, in its order. */
export function thumbnails(value) {
  if (Array.isArray(value)) return value.flatMap(thumbnails);
  if (!value || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, item]) => (key === "thumbnail" && typeof item === "string" ? [item] : thumbnails(item)));
}

/** Show a response in `box`; load: async function that returns the blob of an address, for pictures of results. */
export async function showAnswer(box, response, blob, load) {
  for (const image of box.querySelectorAll("img")) URL.revokeObjectURL(image.src);
  const type = response.headers.get("content-type") ?? "";
  const headers = element("details", "", element("summary", "", "Headers"), scrolling([...response.headers].map((pair) => pair.join(": ")).join("\n"), "Headers of the response"));
  box.replaceChildren(headers);
  box.hidden = false;
  if (!blob.size) return;
  if (type.startsWith("image/")) {
    box.append(picture(blob, "The image of the response"));
  } else if (/json|^text\//.test(type)) {
    const text = await blob.text();
    box.append(scrolling(readable(text, type), "Body of the response"));
    if (type.includes("json") && response.ok) await showPictures(box, text, load);
  } else {
    const link = element("a", "", "Save the file");
    link.href = URL.createObjectURL(blob);
    link.download = "response.bin";
    box.append(link);
  }
}

async function showPictures(box, text, load) {
  const strip = element("div", "pictures");
  box.append(strip);
  for (const address of thumbnails(JSON.parse(text)).slice(0, MAX_PICTURES)) {
    const blob = await load(address).catch(() => null);
    if (blob) strip.append(picture(blob, `Thumbnail ${strip.children.length + 1} of the response`));
  }
}

function scrolling(text, label) {
  const pre = element("pre", "", element("code", "", text));
  pre.tabIndex = 0;
  pre.setAttribute("aria-label", label);
  return pre;
}

function picture(blob, alt) {
  const image = element("img", "");
  image.alt = alt;
  image.src = URL.createObjectURL(blob);
  return image;
}
