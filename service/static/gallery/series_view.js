// The view by study or series: cards, and the slices of the one that is open.

import { byId } from "../dom.js";
import { tr } from "../translate.js";
import * as cards from "./series_cards.js";
import * as large from "./large_view.js";

let listed = ""; // the list that the cards show, as text

/** Show the controls of a view, before it is loaded. */
export function prepare({ view, study }) {
  const ofImages = view === "images";
  for (const part of [byId("grid"), ...document.querySelectorAll(".image-tools")]) part.hidden = !ofImages;
  byId("cards").hidden = ofImages;
  byId("cards").setAttribute("aria-label", view === "study" ? tr("Studies") : tr("List of series"));
  const radio = byId("views")?.querySelector(`input[value=${view}]`);
  if (radio) radio.checked = true;
  if (ofImages) listed = "";
  if (!study) large.close();
}

/** Load the cards of a view, unless they are shown already, and open the series or study of the address. */
export async function show({ view, where, study, series }, signal) {
  const list = JSON.stringify([view, where]);
  if (list !== listed) {
    listed = "";
    byId("none").hidden = await cards.show(view, where, signal);
    if (signal.aborted) return;
    listed = list;
    showMore(cards.isMore());
  }
  if (study) await large.open({ study, series }, signal);
}

/** Load further cards. */
export async function more() {
  showMore(await cards.more());
}

function showMore(isMore) {
  byId("more").hidden = !isMore;
  byId("loaded").textContent = "";
}

/** Connect the controls; change(part) shows another state. */
export function install(change) {
  byId("views")?.addEventListener("change", ({ target }) => change({ view: target.value, study: "", series: "" }));
  byId("cards").addEventListener("click", (event) => {
    const card = event.target.closest(".tile");
    if (card) change({ study: card.dataset.study, series: card.dataset.series });
  });
}
