// Other hospitals: the switch, cards of their images, and what each site has contributed.

import { byId, element, replaceIfMissing } from "./dom.js";
import { rerankText } from "./rerank_texts.js";
import { fixed, tr, trn } from "./translate.js";

const box = byId("federated"); // null where the service knows no other

/** Whether searches ask other hospitals too. No address of the page turns it on: a link must not send anything there. */
export const isChosen = () => Boolean(box?.checked);

/** Connect the choice; repeatSearch() searches again. */
export function install(repeatSearch) {
  box?.addEventListener("change", repeatSearch);
}

/** The card of an image of another site, which has no record, metadata or search here. */
export function siteCard(hit) {
  const film = element("span", "film", pictureOf(hit), element("span", "rank", String(hit.rank)));
  film.append(element("span", "move site", hit.site));
  const words = element("span", "words", element("span", "label", hit.labels.label ?? tr("Image at {site}", { site: hit.site })));
  const more = Object.entries(hit.labels).filter(([key]) => key !== "label");
  words.append(element("span", "more", ...more.map(([key, value]) => element("span", "pair-of", element("span", "key", key), ` ${value}`))));
  words.append(element("span", "figures", element("span", "key", tr("distance")), ` ${fixed(hit.distance, 2)}`));
  const card = element("span", "elsewhere", film, words);
  card.title = hit.image_id; // the name by which the other hospital finds it
  return element("li", "", card);
}

function pictureOf(hit) {
  if (!hit.links.thumbnail) return element("span", "gone", tr("No picture is shared"));
  const picture = element("img");
  picture.alt = "";
  replaceIfMissing(picture);
  picture.src = hit.links.thumbnail;
  return picture;
}

/** What each site says, and why one did not answer, as sentences. */
export function siteNotes(reports) {
  return (reports ?? []).flatMap((report) => {
    const site = report.name ?? tr("This hospital");
    if (report.problem) return [tr("{site} gave no answer: {problem}", { site, problem: report.problem })];
    const share = trn("{site}: {count} result", "{site}: {count} results", report.results, { site });
    const among = trn("{count} image searched", "{count} images searched", report.images);
    return [`${share}, ${among}`, ...report.notes.map((note) => `${site}: ${rerankText(note)}`)];
  });
}
