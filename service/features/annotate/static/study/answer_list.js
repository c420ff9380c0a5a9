// A list of answers in a reader study: pictures to enlarge, and judgements of single images.

import { byId, element, replaceIfMissing } from "../dom.js";
import { tr } from "../translate.js";

const ERASED = "-"; // in place of an image of an erased patient
const JUDGEMENTS = { yes: true, no: false };

/** The address of an image, or a part of it. */
export function addressOf(image, collection, part) {
  return `/v1/images/${encodeURIComponent(image)}/${part}?${new URLSearchParams({ collection })}`;
}

/** Show an image large. */
export function enlarge(image, collection) {
  const large = byId("large");
  large.src = addressOf(image, collection, "thumbnail");
  const picture = new Image();
  picture.addEventListener("load", () => byId("enlarged").open && (large.src = picture.src));
  picture.src = addressOf(image, collection, "picture");
  byId("enlarged").showModal();
}

function shot(image, collection, title) {
  const button = element("button", "shot");
  button.type = "button";
  if (image === ERASED) {
    button.append(element("span", "gone", tr("Picture no longer available")));
    button.disabled = true;
    return button;
  }
  const picture = element("img");
  picture.alt = title;
  replaceIfMissing(picture);
  picture.src = addressOf(image, collection, "thumbnail");
  button.append(picture);
  button.addEventListener("click", () => enlarge(image, collection));
  return button;
}

function judgementButtons(image, title, relevant) {
  const row = element("div", "judged");
  const signs = { yes: ["✓", tr("Relevant")], no: ["✕", tr("Not relevant")] };
  for (const [name, [sign, words]] of Object.entries(signs)) {
    const button = element("button", "button small", sign);
    button.type = "button";
    button.dataset.relevant = name;
    button.dataset.image = image;
    button.title = words;
    button.setAttribute("aria-label", `${words}: ${title}`);
    button.setAttribute("aria-pressed", String(relevant[image] === JUDGEMENTS[name]));
    row.append(button);
  }
  return row;
}

/** Fill a list with images; `relevant` has true or false by image, and is changed by the buttons if `judges`. */
export function showList(list, images, { collection, judges, relevant }) {
  list.replaceChildren(
    ...images.map((image, index) => {
      const title = tr("Image {rank}", { rank: index + 1 });
      const item = element("li", "", shot(image, collection, title));
      if (judges && image !== ERASED) item.append(judgementButtons(image, title, relevant));
      return item;
    }),
  );
}

/** Set or take back the judgement of a button; an image in both lists gets it in both. */
export function toggleJudgement(button, relevant) {
  const { image } = button.dataset;
  const value = JUDGEMENTS[button.dataset.relevant];
  if (relevant[image] === value) delete relevant[image];
  else relevant[image] = value;
  for (const other of document.querySelectorAll("[data-relevant]")) {
    if (other.dataset.image !== image) continue;
    other.setAttribute("aria-pressed", String(relevant[image] === JUDGEMENTS[other.dataset.relevant]));
  }
}
