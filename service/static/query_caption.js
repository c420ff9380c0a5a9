// The caption of the query's picture.

import { tr } from "./translate.js";

/** Describe a query {image, files, slices, slice, region}; info: its description in the response. */
export function captionOf(query, info) {
  if (query.files) return tr("{count} of your images, one query", { count: query.files.length });
  const frame = query.slices ? tr("slice {number}", { number: query.slice + 1 }) : info.frame ? tr("frame {number}", { number: info.frame }) : "";
  const name = query.image ? tr("Image {name} of the collection", { name: query.image.slice(0, 8) }) : tr("Your image");
  const format = [info.format.toUpperCase(), frame].filter(Boolean).join(", ");
  const [x, y, width, height] = query.region ?? [];
  const size = query.region ? tr("region {width} × {height} at {x}, {y}", { width, height, x, y }) : `${info.width} × ${info.height}`;
  return `${name} · ${size} · ${format}`;
}
