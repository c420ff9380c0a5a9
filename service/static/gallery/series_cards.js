// Cards of studies or series.

import { byId, element, replaceIfMissing } from "../dom.js";
import { trn } from "../translate.js";
import { wordsOf } from "./tile_words.js";
import { pictureAddress, series } from "./requests.js";

const PAGE = 60; // cards of a request

let next = null;
let shown = null; // {level, where, signal} of the cards

/** Show the first studies or series with images that meet conditions; resolves with whether there are any. */
export async function show(level, where, signal) {
  shown = { level, where, signal };
  next = null;
  byId("cards").replaceChildren();
  await more();
  return byId("cards").children.length > 0;
}

/** Whether there are further cards. */
export const isMore = () => next !== null;

/** Add the next cards; resolves with whether there are further ones. */
export async function more() {
  const { level, where, signal } = shown;
  const page = await series({ level, where, limit: PAGE, cursor: next }, signal);
  if (signal.aborted) return false;
  next = page.next;
  byId("cards").append(...page.items.map((item) => card(item, level)));
  return next !== null;
}

function card(item, level) {
  const picture = element("img");
  picture.alt = "";
  picture.loading = "lazy";
  replaceIfMissing(picture);
  picture.src = pictureAddress(item.image_id);
  const { title, more: others } = wordsOf(item, "newest");
  const number = trn("{count} slice", "{count} slices", item.images);
  const words = [element("span", "title", title), element("span", "by", others), element("span", "by", number)];
  const button = element("button", "tile", element("span", "film", picture), ...words);
  button.type = "button";
  button.dataset.study = item.study;
  button.dataset.series = level === "series" ? item.series : "";
  return element("li", "", button);
}
