// Recent queries of this tab: collection images by id, the user's files in memory.

import { byId, element } from "./dom.js";
import { current, imageAddress } from "./collection.js";

const STORAGE_KEY = "recent";
const MAX_ENTRIES = 12;
const SIDE = 48; // CSS pixels of a thumbnail

let entries = []; // newest first: {query, title, picture}

/** What the user chose: slices of a stack are one query, whichever is shown. */
const filesOf = (query) => query.slices ?? query.files ?? query.file;

function isSame(a, b) {
  if (String(a.region ?? "") !== String(b.region ?? "")) return false;
  if (a.text || b.text) return a.text === b.text && a.collection === b.collection;
  if (!a.image) return !b.image && filesOf(a) === filesOf(b);
  return a.image === b.image && (a.collection ?? "") === (b.collection ?? "");
}

/** A small copy of an image element. */
function smallCopy(image) {
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
  const saved = entries.filter((entry) => entry.query.image).map(({ query, title }) => ({
    query: { image: query.image, region: query.region ?? null, collection: query.collection ?? "" },
    title,
  }));
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(saved));
  } catch {
    // storage is disabled: the list lasts as long as the page
  }
}

function load() {
  try {
    const saved = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "[]");
    entries = saved.map((entry) => ({ ...entry, picture: thumbnail(entry.query) }));
  } catch {
    entries = [];
  }
}

function show() {
  byId("recent").hidden = !entries.length;
  byId("recent-list").replaceChildren(
    ...entries.map((entry, index) => {
      const button = element("button", "", element("span", "film", entry.picture), element("span", "", entry.title));
      button.type = "button";
      button.dataset.index = index;
      return element("li", "", button);
    }),
  );
}

/** Add a query at the top; image: the element that shows it, null for words, which are kept in memory only. */
export function add(newQuery, title, image) {
  const query = newQuery.image || newQuery.text ? { ...newQuery, collection: current() } : { ...newQuery };
  const picture = newQuery.text ? element("span", "gone", "Aa") : image.naturalWidth ? smallCopy(image) : query.image ? thumbnail(query) : "";
  entries = [{ query, title, picture }, ...entries.filter((entry) => !isSame(entry.query, query))];
  entries.length = Math.min(entries.length, MAX_ENTRIES);
  store();
  show();
}

/** Show the list; call onSelect(query) when the user selects an entry. */
export function install(onSelect) {
  load();
  show();
  byId("recent-list").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) onSelect({ ...entries[Number(button.dataset.index)].query });
  });
  byId("forget").addEventListener("click", () => {
    entries = [];
    store();
    show();
  });
}
