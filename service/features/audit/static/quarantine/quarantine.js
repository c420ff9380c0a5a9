// The page of the quarantine: images that the intake check keeps out, to release or refuse.

import { request } from "../api.js";
import { byId, element } from "../dom.js";
import { tr, trn } from "../translate.js";
import "../theme.js";

const REASONS = {
  text: tr("Text is burned into the pixels"),
  blank: tr("The image shows nothing"),
  damaged: tr("The end of the image is missing"),
  inverted: tr("It looks inverted: its negative fits the collection better"),
  modality: tr("It looks like images of another modality"),
  unlike: tr("Nothing in the collection looks like it"),
};

const { collection } = byId("quarantine").dataset;
let next = null; // cursor of the next page

function address(path = "", values = {}) {
  const query = new URLSearchParams(collection ? { collection, ...values } : values);
  return `/v1/quarantine${path}${query.size ? `?${query}` : ""}`;
}

function showProblem(error) {
  byId("problem").querySelector("p").textContent = error.message;
  byId("problem").hidden = false;
}

function count() {
  const images = byId("list").children.length;
  byId("status").textContent = trn("{count} image", "{count} images", images);
}

function button(text, kind, act) {
  const made = element("button", `button ${kind}`, text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** Carry out the decision on an image, and take it off the list. */
async function decide(card, path, method) {
  for (const each of card.querySelectorAll("button")) each.disabled = true;
  try {
    await request(address(path), { method });
    card.remove();
    count();
  } catch (error) {
    for (const each of card.querySelectorAll("button")) each.disabled = false;
    showProblem(error);
  }
}

function cardOf(item) {
  const picture = element("img");
  const words = item.findings.map((finding) => REASONS[finding] ?? finding);
  picture.src = address(`/${item.image_id}/thumbnail`);
  picture.alt = words.join("; ");
  picture.loading = "lazy";
  const card = element("li", "", picture, ...words.map((text) => element("p", "", text)));
  card.append(
    element(
      "div",
      "buttons",
      button(tr("Release"), "primary", () => decide(card, `/${item.image_id}/release`, "POST")),
      button(tr("Refuse"), "danger", () => decide(card, `/${item.image_id}`, "DELETE")),
    ),
  );
  return card;
}

async function load(cursor) {
  try {
    const page = await (await request(address("", cursor ? { cursor } : {}), {})).json();
    const cards = page.items.map(cardOf);
    if (cursor) byId("list").append(...cards);
    else byId("list").replaceChildren(...cards);
    next = page.next;
    byId("load-more").hidden = !next;
    byId("problem").hidden = true;
    count();
  } catch (error) {
    showProblem(error);
  }
}

byId("load-more").addEventListener("click", () => load(next));
byId("retry").addEventListener("click", () => load());
load();
