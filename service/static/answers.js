// The answers as a grid of cards.

import { buttons as feedback } from "./feedback.js";

const OTHER_LABELS = 3;
const FIRST = 48; // more than a screen shows; others come once these are painted

/** A new element: tag, class, text or children. */
export function element(tag, className, ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

/** Ranks by image. */
export function ranks(results) {
  return new Map(results.map((hit) => [hit.image_id, hit.rank]));
}

/** In words and signs where an image at `now` stood in the other list, of which `known` places are known. */
function move(now, other, known) {
  if (other === undefined) return { className: "new", sign: "new", words: `from beyond rank ${known}` };
  const places = other - now;
  if (places > 0) return { className: "up", sign: `▲${places}`, words: `up ${places}, from rank ${other}` };
  if (places < 0) return { className: "down", sign: `▼${-places}`, words: `down ${-places}, from rank ${other}` };
  return { className: "same", sign: "=", words: "not moved" };
}

/** Replace a picture that cannot be had by words. */
export function standIn(image) {
  const replace = () => image.replaceWith(element("span", "gone", "Picture no longer available"));
  if (image.getAttribute("src") && image.complete && !image.naturalWidth) replace();
  else image.addEventListener("error", replace, { once: true });
}

function labels(hit) {
  const { label, ...others } = hit.labels;
  const entries = Object.entries(others);
  const first = label ?? entries.shift()?.[1] ?? `image ${hit.image_id.slice(0, 8)}`;
  return { first, others: entries };
}

/** How many decimals tell most of the scores of a list apart, from 3 to 7. */
function decimals(hits) {
  for (let digits = 3; digits < 7; digits += 1) {
    if (new Set(hits.map((hit) => hit.score.toFixed(digits))).size > hits.length / 2) return digits;
  }
  return hits.length > 1 ? 7 : 3;
}

/** A button on a card; with the keyboard its letter does the same, so that Tab need not pass it. */
function act(what, title, of) {
  const button = element("button", `act ${what}`, what === "search" ? "⌕" : "i");
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.act = what;
  button.title = title;
  button.setAttribute("aria-label", `${title}: ${of}`);
  return button;
}

/** A sign that is read out as these words. */
function spoken(sign, words) {
  sign.setAttribute("role", "img");
  sign.setAttribute("aria-label", words);
  return sign;
}

function card(hit, digits, moved, href) {
  const { first, others } = labels(hit);
  const picture = element("img");
  picture.alt = "";
  picture.loading = "lazy";
  picture.decoding = "async";
  standIn(picture);
  picture.src = hit.links.thumbnail;

  const film = element("span", "film", picture, spoken(element("span", "rank", String(hit.rank)), `Rank ${hit.rank}`));
  if (moved) {
    const badge = spoken(element("span", `move ${moved.className}`, moved.sign), moved.words);
    badge.title = moved.words;
    film.append(badge);
  }
  const words = element("span", "words", element("span", "label", first));
  const more = element("span", "more");
  for (const [key, value] of others.slice(0, OTHER_LABELS)) {
    const pair = element("span", "pair-of", element("span", "key", key), " ", value);
    more.append(pair);
  }
  if (others.length > OTHER_LABELS) more.append(element("span", "pair-of", `+${others.length - OTHER_LABELS}`));
  if (others.length) words.append(more);
  const score = element("span", "score", element("span", "key", "score"), " ", hit.score.toFixed(digits));
  const distance = element("span", "distance", element("span", "key", "distance"), " ", hit.distance.toFixed(2));
  words.append(element("span", "figures", score, distance));

  const link = element("a", "card", film, words);
  link.href = href;
  link.dataset.image = hit.image_id;
  link.dataset.rank = hit.rank;
  link.title = Object.entries(hit.labels)
    .map(([key, value]) => `${key}: ${value}`)
    .join("\n");
  return element("li", "", link, act("search", "Search from it", first), act("about", "Metadata", first), ...feedback(hit.image_id, first));
}

/** A titled grid of hits. other: ranks in the other list, null where there is none to compare with. */
export function column(title, hits, other, address) {
  const grid = element("ol", "grid");
  grid.setAttribute("role", "list");
  const digits = decimals(hits);
  const draw = (some) => {
    for (const hit of some) {
      const moved = other && move(hit.rank, other.get(hit.image_id), other.size);
      grid.append(card(hit, digits, moved, address(hit.image_id)));
    }
  };
  const first = other ? hits.length : FIRST; // what moved is drawn over answers that are there already
  draw(hits.slice(0, first));
  if (hits.length > first) requestAnimationFrame(() => requestAnimationFrame(() => draw(hits.slice(first))));
  const section = element("section", "column", element("h2", "", title), grid);
  section.setAttribute("aria-label", title);
  return section;
}

/** Grey cards where answers will be. */
export function skeleton(count) {
  const grid = element("div", "grid waiting");
  for (let card = 0; card < count; card += 1) grid.append(element("div", "card", element("span", "film")));
  return grid;
}
