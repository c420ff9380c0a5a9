// What a card says of an image. Without the document.

import { tr } from "./translate.js";

/** A body part as DICOM writes it, "CHEST", in small letters. */
const small = (text) => (text && text === text.toUpperCase() && text.length > 3 ? text.toLowerCase() : text);

const placeOf = (card) => [card?.modality, small(card?.body_part)].filter(Boolean).join(" ");

/** The title of a hit {card, labels, image_id}. */
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
