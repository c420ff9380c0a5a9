// Recent queries, in this tab only: images of the collection by their ids, files of the reader in memory.

import { element } from "./answers.js";
import { current, imageAddress } from "./collection.js";

const at = (id) => document.getElementById(id);
const KEY = "recent";
const MOST = 12;
const SIDE = 48; // pixels of a small picture

let entries = []; // newest first: {query, title, picture}

function same(one, other) {
  const region = String(one.region ?? "") === String(other.region ?? "");
  const place = (one.collection ?? "") === (other.collection ?? "");
  return region && (one.image ? place && one.image === other.image : !other.image && one.file === other.file);
}

function small(image) {
  const canvas = element("canvas");
  canvas.width = canvas.height = 2 * SIDE;
  const scale = (2 * SIDE) / Math.max(image.naturalWidth, image.naturalHeight, 1);
  const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
  canvas.getContext("2d").drawImage(image, SIDE - width / 2, SIDE - height / 2, width, height);
  return canvas;
}

function thumbnail({ image, collection }) {
  const picture = element("img");
  picture.alt = "";
  picture.src = imageAddress(image, "/thumbnail", { collection });
  picture.addEventListener("error", () => picture.remove(), { once: true });
  return picture;
}

function store() {
  const kept = entries.filter((entry) => entry.query.image).map(({ query, title }) => ({
    query: { image: query.image, region: query.region ?? null, collection: query.collection ?? "" },
    title,
  }));
  try {
    sessionStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // storage is switched off: the list lasts as long as the page
  }
}

function load() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    entries = kept.map((entry) => ({ ...entry, picture: thumbnail(entry.query) }));
  } catch {
    entries = [];
  }
}

function show() {
  at("recent").hidden = !entries.length;
  at("recent-list").replaceChildren(
    ...entries.map((entry, place) => {
      const button = element("button", "", element("span", "film", entry.picture), element("span", "", entry.title));
      button.type = "button";
      button.dataset.place = place;
      return element("li", "", button);
    }),
  );
}

/** Put a query that was answered on top; picture: the image element that shows it. */
export function add(asked, title, picture) {
  const query = asked.image ? { ...asked, collection: current() } : { ...asked };
  const kept = picture.naturalWidth ? small(picture) : query.image ? thumbnail(query) : "";
  entries = [{ query, title, picture: kept }, ...entries.filter((entry) => !same(entry.query, query))];
  entries.length = Math.min(entries.length, MOST);
  store();
  show();
}

/** Call `again(query)` when the reader takes one up. */
export function install(again) {
  load();
  show();
  at("recent-list").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) again({ ...entries[Number(button.dataset.place)].query });
  });
  at("forget").addEventListener("click", () => {
    entries = [];
    store();
    show();
  });
}
