// The address of a query and its results on the map, and an outline on it as a text of an address. Without the document.

export const MOST_HITS = 100; // results in an address
const MOST = 48; // corners
const DECIMALS = 5; // places of images have 4

/** The text of an outline [[x, y], ...]; of many corners an even choice. */
export function writeArea(outline) {
  const step = Math.max(1, outline.length / MOST);
  const corners = outline.length > MOST ? Array.from({ length: MOST }, (_, index) => outline[Math.floor(index * step)]) : outline;
  return corners.flat().map((value) => Number(value.toFixed(DECIMALS))).join(",");
}

/** The outline of a text; [] if it is none. */
export function readArea(text) {
  const numbers = (text ?? "").split(",").map(Number);
  if (numbers.length < 6 || numbers.length % 2 || !numbers.every(Number.isFinite)) return [];
  return Array.from({ length: numbers.length / 2 }, (_, index) => numbers.slice(2 * index, 2 * index + 2));
}

/** The address of the map with a query image of the collection, or none, and the ids of results. */
export function mapAddress({ collection, image, hits }) {
  const fields = { collection, image, hits: hits.slice(0, MOST_HITS).join(",") };
  return `/browse?${new URLSearchParams(Object.entries(fields).filter(([, value]) => value))}`;
}
