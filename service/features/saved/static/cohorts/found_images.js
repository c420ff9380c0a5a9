// The images found so far, the latest first: loaded when they are asked for, and taken out by the owner.

import { element, replaceIfMissing } from "../dom.js";
import { tr } from "../translate.js";

const SHOWN = 480;

/** The last images that belong, the latest first. */
export function latestFound(images) {
  return images.filter(({ relevant }) => relevant).slice(-SHOWN).reverse();
}

function card(item, number) {
  const image = element("img");
  image.alt = tr("Image {number}", { number });
  image.loading = "lazy";
  image.src = item.links.thumbnail;
  replaceIfMissing(image);
  const words = Object.values(item.labels).slice(0, 2).join(" · ");
  return element("li", "cohort-card", element("div", "film", image), element("p", "hint", words));
}

function removeButton(item, number) {
  const button = element("button", "judge-cohort irrelevant", "✕");
  button.type = "button";
  button.dataset.remove = item.image_id;
  button.setAttribute("aria-label", `${tr("Does not belong")}: ${tr("Image {number}", { number })}`);
  return button;
}

/** Show the images in a list; mine: with buttons that take one out, as long as another one is left. */
export function show(list, images, mine) {
  const found = latestFound(images);
  const cards = found.map((item, index) => {
    const entry = card(item, index + 1);
    if (mine && found.length > 1) entry.querySelector(".film").after(removeButton(item, index + 1));
    return entry;
  });
  list.replaceChildren(...cards);
}
