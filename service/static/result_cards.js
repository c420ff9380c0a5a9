// Search results as a grid of cards.

import { element, replaceIfMissing } from "./dom.js";
import { judgementButtons } from "./feedback.js";
import { withMembers } from "./group_members.js";
import { frame } from "./match_frame.js";
import { siteCard } from "./other_sites.js";
import { fixed, tr } from "./translate.js";

const OTHER_LABELS = 3;
const FIRST_BATCH = 48; // more than a screen shows; the rest follows after the first paint

/** Ranks by image id. */
export function ranks(results) {
  return new Map(results.map((hit) => [hit.image_id, hit.rank]));
}

/** Describe a move from rank `before` in the other list to rank `after`; only `depth` ranks of it are known. */
function describeMove(after, before, depth) {
  if (before === undefined) return { className: "new", sign: tr("new"), text: tr("from beyond rank {rank}", { rank: depth }) };
  const steps = before - after;
  if (steps > 0) return { className: "up", sign: `▲${steps}`, text: tr("up {steps}, from rank {rank}", { steps, rank: before }) };
  if (steps < 0) return { className: "down", sign: `▼${-steps}`, text: tr("down {steps}, from rank {rank}", { steps: -steps, rank: before }) };
  return { className: "same", sign: "=", text: tr("not moved") };
}

/** The main label of a hit, and its other labels as pairs. */
function labelsOf(hit) {
  const { label, ...others } = hit.labels;
  const entries = Object.entries(others);
  const title = label ?? entries.shift()?.[1] ?? tr("image {name}", { name: hit.image_id.slice(0, 8) });
  return { title, otherLabels: entries };
}

/** The number of decimals, from 3 to 7, at which most scores of a list differ. */
function decimalsFor(hits) {
  for (let digits = 3; digits < 7; digits += 1) {
    if (new Set(hits.map((hit) => hit.score.toFixed(digits))).size > hits.length / 2) return digits;
  }
  return hits.length > 1 ? 7 : 3;
}

/** A button on a card; Tab skips it, since a shortcut key does the same. */
function actionButton(action, title, target) {
  const button = element("button", `act ${action}`, action === "search" ? "⌕" : "i");
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.act = action;
  button.title = title;
  button.setAttribute("aria-label", `${title}: ${target}`);
  return button;
}

/** Give a sign a text for screen readers. */
function withText(sign, text) {
  sign.setAttribute("role", "img");
  sign.setAttribute("aria-label", text);
  return sign;
}

function card(hit, digits, move, href) {
  const { title, otherLabels } = labelsOf(hit);
  const picture = element("img");
  picture.alt = "";
  picture.loading = "lazy";
  picture.decoding = "async";
  replaceIfMissing(picture);
  picture.src = hit.links.thumbnail;

  const film = element("span", "film", picture, withText(element("span", "rank", String(hit.rank)), tr("Rank {rank}", { rank: hit.rank })));
  if (hit.match) frame(picture, hit.match);
  if (move) {
    const badge = withText(element("span", `move ${move.className}`, move.sign), move.text);
    badge.title = move.text;
    film.append(badge);
  }
  const text = element("span", "words", element("span", "label", title));
  const more = element("span", "more");
  for (const [key, value] of otherLabels.slice(0, OTHER_LABELS)) {
    const pair = element("span", "pair-of", element("span", "key", key), " ", value);
    more.append(pair);
  }
  const hidden = otherLabels.length - OTHER_LABELS;
  if (hidden > 0) more.append(element("span", "pair-of", `+${hidden}`));
  if (otherLabels.length) text.append(more);
  const score = element("span", "score", element("span", "key", tr("score")), " ", fixed(hit.score, digits));
  const distance = element("span", "distance", element("span", "key", tr("distance")), " ", fixed(hit.distance, 2));
  score.title = tr("Larger is better; comparable within this list only");
  distance.title = tr("0 for equal values; comparable between searches of this collection");
  text.append(element("span", "figures", score, distance));

  const link = element("a", "card", film, text);
  link.href = href;
  link.dataset.image = hit.image_id;
  link.dataset.rank = hit.rank;
  link.title = Object.entries(hit.labels)
    .map(([key, value]) => `${key}: ${value}`)
    .join("\n");
  const search = actionButton("search", tr("Search with this image"), title);
  const metadata = actionButton("about", tr("Metadata"), title);
  const item = element("li", "", link, search, metadata, ...judgementButtons(hit.image_id, title));
  if (hit.links.viewer) item.append(viewerLink(hit.links.viewer, title));
  if (hit.group?.more) item.append(moreButton(hit, title));
  return item;
}

/** A link to the study in the DICOM viewer; Tab skips it, since a shortcut key does the same. */
function viewerLink(address, target) {
  const link = element("a", "act in-viewer", "↗");
  Object.assign(link, { href: address, target: "_blank", rel: "noopener noreferrer", tabIndex: -1 });
  link.title = tr("Open the study in the viewer");
  link.setAttribute("aria-label", `${link.title}: ${target}`);
  return link;
}

/** A button that shows more of the group of a hit. */
function moreButton(hit, target) {
  const button = element("button", "button small of-group", tr("+{count} more", { count: hit.group.more }));
  button.type = "button";
  button.dataset.more = hit.image_id;
  button.title = tr("Show more with {key}, which are among the best results", { key: hit.group.key });
  button.setAttribute("aria-label", tr("{count} more of the group of {target}, rank {rank}", { count: hit.group.more, target, rank: hit.rank }));
  return button;
}

/**
 * A titled grid of hits.
 * otherRanks: ranks by image id in the list to compare with, or null; addressOf(imageId): the address of its card.
 */
export function column(title, hits, otherRanks, addressOf) {
  const grid = element("ol", "grid");
  grid.setAttribute("role", "list");
  const digits = decimalsFor(hits);
  const draw = (batch) => {
    for (const hit of withMembers(batch)) {
      if (hit.site) {
        grid.append(siteCard(hit));
        continue;
      }
      const compared = otherRanks && typeof hit.rank === "number"; // members of a group have no rank of their own
      const move = compared && describeMove(hit.rank, otherRanks.get(hit.image_id), otherRanks.size);
      grid.append(card(hit, digits, move, addressOf(hit.image_id)));
    }
  };
  const count = otherRanks ? hits.length : FIRST_BATCH; // a comparison replaces cards that are already painted
  draw(hits.slice(0, count));
  if (hits.length > count) requestAnimationFrame(() => requestAnimationFrame(() => draw(hits.slice(count))));
  const section = element("section", "column", element("h2", "", title), grid);
  section.setAttribute("aria-label", title);
  return section;
}

/** Grey placeholder cards. */
export function skeleton(count) {
  const grid = element("div", "grid waiting");
  for (let card = 0; card < count; card += 1) grid.append(element("div", "card", element("span", "film")));
  return grid;
}
