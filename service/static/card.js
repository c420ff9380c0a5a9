// A card: the picture of an image, what it shows, and whom. All pages draw images of a collection with it.

import { tr } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

/** A key as people read it. */
export const wordsOf = (key) => key.replaceAll("_", " ");

/** A body part as DICOM writes it, "CHEST", in small letters. */
const small = (text) => (text && text === text.toUpperCase() && text.length > 3 ? text.toLowerCase() : text);

const placeOf = (card) => [card?.modality, small(card?.body_part)].filter(Boolean).join(" ");

export function titleOf({ card, labels = {}, image_id }) {
  const place = placeOf(card);
  return card?.finding || place || labels.label || tr("image {name}", { name: image_id.slice(0, 8) });
}

/** The facts below the title: "MR head", "F 54", "2021". */
export function factsOf({ card }) {
  if (!card) return [];
  const place = placeOf(card);
  const person = [card.sex, card.age].filter(Boolean).join(" ");
  return [card.finding && place, person, card.year].filter(Boolean);
}

export const tip = ({ card, labels = {} }) => [card?.series_description, ...Object.entries(labels).map(([key, value]) => `${wordsOf(key)}: ${value}`)].filter(Boolean).join("\n");

/** A picture that is replaced by words if it cannot be loaded. */
export function picture(address, { lazy = true } = {}) {
  const gone = ({ target }) => target.parentElement.classList.add("gone");
  const loaded = ({ target }) => target.parentElement.classList.remove("gone");
  return html`<img src=${address} alt="" loading=${lazy ? "lazy" : "eager"} decoding="async" draggable="false" @error=${gone} @load=${loaded} /><span class="missing">${tr("Picture no longer available")}</span>`;
}

/** What a card shows of a hit: its picture, and its words. facts: below the title; the others as of `card`. */
export function face(hit, { number = "", slice = null, over = nothing, facts = factsOf(hit) }) {
  const place = slice ?? (hit.card?.slice?.count > 1 ? hit.card.slice : null);
  return html`<span class="film" data-stack=${place ? hit.image_id : nothing}>${picture(slice?.address ?? hit.links.thumbnail)}${over}
        ${number === "" ? nothing : html`<span class="number">${number}</span>`}
        ${hit.match ? html`<svg class="match-frame" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"><rect x=${hit.match.x} y=${hit.match.y} width=${hit.match.width} height=${hit.match.height}></rect></svg>` : nothing}
        ${place ? html`<span class="slice">${tr("{number} of {count}", place)}</span>` : nothing}
      </span>
      <span class="words"><b>${titleOf(hit)}</b><span class="facts">${facts.join(" · ")}</span></span>`;
}

/**
 * A card of a hit. href: of its link; number: beside the picture, "" for none; slice: {number, count, address} that is shown in
 * place of its own; marked: 1, -1 or 0, null where nothing is judged; over, below: templates on the picture, and below the words; actions: {open, mark, search}, called with the hit and the event.
 */
export function card(hit, { href, number = "", slice = null, marked = null, over = nothing, below = nothing, actions = {} }) {
  const title = titleOf(hit);
  const hasStack = slice || hit.card?.slice?.count > 1;
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button || !actions.open) return;
    event.preventDefault();
    actions.open(hit, event);
  };
  const mark = (value, sign, words) =>
    html`<button class="mark" type="button" tabindex="-1" aria-pressed=${String(marked === value)} title=${words} aria-label=${`${words}: ${title}`} @click=${() => actions.mark(hit, value)}>${sign}</button>`;
  return html`<a class="card" draggable=${hasStack ? "false" : nothing} href=${href} data-image=${hit.image_id} title=${tip(hit)} @click=${open}>${face(hit, { number, slice, over })}</a>
    ${marked === null && !actions.search ? nothing : html`<span class="marks">
      ${marked === null ? nothing : html`${mark(1, "✓", tr("Like this"))}${mark(-1, "✕", tr("Not like this"))}`}
      ${actions.search ? html`<button class="mark" type="button" tabindex="-1" title=${tr("Search with this image")} aria-label=${`${tr("Search with this image")}: ${title}`} @click=${() => actions.search(hit)}>⌕</button>` : nothing}
    </span>`}${below}`;
}

/** The card of its grid that an arrow key, Home or End moves to from a card; undefined for other keys. */
export function neighbour(card, key) {
  const cards = [...card.closest(".grid").querySelectorAll(".card")];
  const [at, tops] = [cards.indexOf(card), cards.map((each) => each.parentElement.offsetTop)];
  const row = tops.filter((top) => top === tops[0]).length;
  return cards[{ ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - row, ArrowDown: at + row, Home: 0, End: cards.length - 1 }[key]];
}
