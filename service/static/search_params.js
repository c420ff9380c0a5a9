// The search parameters of the controls, and their form in the address of the page.

import * as address from "./address.js";
import * as anywhere from "./anywhere.js";
import * as collection from "./collection.js";
import { byId } from "./dom.js";
import * as feedback from "./feedback.js";
import * as filters from "./filters.js";
import * as grouping from "./grouping.js";
import * as otherSites from "./other_sites.js";
import * as reranking from "./reranking.js";
import { state } from "./search_state.js";

const defaults = { k: byId("k").value, view: "after" };

/** The parameters of a search; one by text is not re-ranked. */
export function searchParams() {
  const judgements = feedback.judgements();
  const params = { k: Number(byId("k").value), ...reranking.forSearch(judgements), where: filters.read(), feedback: judgements };
  if (otherSites.isChosen() && !state.query?.text) return { k: params.k, where: params.where, ...reranking.NONE, federated: true };
  if (grouping.read()) params.group_by = grouping.read();
  if (anywhere.isChosen(state.query?.region, judgements)) return { ...params, ...reranking.NONE, anywhere: true };
  return state.query?.text ? { ...params, ...reranking.NONE } : params;
}

/** The list that is shown: "before", "after" or "both". */
export function selectedView() {
  return document.querySelector("input[name=view]:checked").value;
}

/** The address of the current search, with its judgements. */
export function currentAddress() {
  return addressOf(state.query?.image, state.query?.region, feedback.forAddress());
}

/** The address of a search with an image of the collection, or of the start page. */
export function addressOf(image, region, judgements) {
  const { k, where } = searchParams();
  return address.write({
    collection: collection.current(),
    image,
    region: region?.join(","),
    anywhere: anywhere.isChosen(region) ? "1" : "",
    ...reranking.forAddress(),
    k: String(k) === defaults.k ? "" : k,
    where: where.join(";"),
    group_by: grouping.read(),
    said: judgements,
    view: selectedView() === defaults.view ? "" : selectedView(),
  });
}

/** Set the controls to the parameters of an address. */
export function setControls(params) {
  reranking.open(params.rerank, params.parameters);
  byId("k").value = params.k ?? defaults.k;
  filters.write((params.where ?? "").split(";").map((text) => text.trim()).filter(Boolean));
  grouping.write(params.group_by);
  anywhere.write(params.anywhere);
  const views = [...document.querySelectorAll("input[name=view]")];
  (views.find((radio) => radio.value === params.view) ?? views.find((radio) => radio.value === defaults.view)).checked = true;
}
