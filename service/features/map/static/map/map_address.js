// Addresses of the map and of what it leads to. Without the document.

export const MOST_HITS = 100; // results in an address

function withParams(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of params) {
    if (value !== "" && value !== null && value !== undefined) query.append(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** The address of the map with a query image of the collection, or none, and the ids of results. */
export function mapAddress({ collection, image, hits = [] }) {
  return withParams("/map", [["collection", collection], ["image", image], ["hits", hits.slice(0, MOST_HITS).join(",")]]);
}

/** What an address asks for: {key, image, hits}. */
export function readAddress(search) {
  const query = new URLSearchParams(search);
  const hits = (query.get("hits") ?? "").split(",").filter(Boolean);
  return { key: query.get("key") ?? "", image: query.get("image") ?? "", hits: [...new Set(hits)].slice(0, MOST_HITS) };
}

/** The same address with another label key. */
export function withKey(search, key) {
  const query = new URLSearchParams(search);
  query.set("key", key);
  return `?${query}`;
}

/** The gallery with conditions. */
export function galleryAddress(collection, where) {
  return withParams("/gallery", [["collection", collection], ...where.map((condition) => ["where", condition])]);
}

/** The search with an image. */
export function searchAddress(collection, image) {
  return withParams("/", [["collection", collection], ["image", image]]);
}
