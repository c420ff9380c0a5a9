// The page of cohorts: their list, and the beginning of one with images that another page has chosen.

import { request } from "../api.js";
import { byId, element, replaceIfMissing } from "../dom.js";
import "../theme.js";
import { tr, trn } from "../translate.js";
import { cohortItem } from "./cohort_item.js";
import * as deleteCohort from "./delete_cohort.js";
import { forgetStart, keptStart } from "./start_cohort.js";

const SHOWN = 8; // pictures of images that a cohort begins with

const { several, admin } = byId("cohorts").dataset;
let saved = new Map(); // the cohorts that are shown, by id
let next = null; // cursor of the next page

async function load(cursor) {
  const query = cursor ? `?${new URLSearchParams({ cursor })}` : "";
  try {
    const page = await (await request(`/v1/cohorts${query}`, {})).json();
    if (!cursor) saved = new Map();
    for (const item of page.items) saved.set(item.id, item);
    next = page.next;
    byId("problem").hidden = true;
    show();
  } catch (error) {
    byId("problem").querySelector("p").textContent = error.message;
    byId("problem").hidden = false;
  }
}

function show() {
  const items = [...saved.values()].map((item) =>
    cohortItem(item, { several: several !== undefined, canDelete: item.mine || admin !== undefined }),
  );
  byId("list").replaceChildren(...items);
  byId("none").hidden = Boolean(items.length || next);
  byId("load-more").hidden = !next;
  byId("status").textContent = trn("{count} cohort", "{count} cohorts", items.length);
}

function collectionQuery({ collection }) {
  return collection ? `?${new URLSearchParams({ collection })}` : "";
}

function example(id, start) {
  const image = element("img");
  image.alt = "";
  image.src = `/v1/images/${encodeURIComponent(id)}/thumbnail${collectionQuery(start)}`;
  replaceIfMissing(image);
  return element("li", "film", image);
}

function showStart() {
  const start = keptStart();
  byId("begin").hidden = !start;
  if (!start) return;
  const counts = { relevant: start.relevant.length, others: start.irrelevant.length };
  byId("begin-what").textContent = tr("Begins with {relevant} images that belong and {others} that do not.", counts);
  byId("begin-images").replaceChildren(...start.relevant.slice(0, SHOWN).map((id) => example(id, start)));
  byId("begin-title").focus();
}

async function begin(event) {
  event.preventDefault();
  const start = keptStart();
  if (!start) return;
  byId("begin-confirm").disabled = true;
  const { relevant, irrelevant, where } = start;
  const body = JSON.stringify({ title: byId("begin-title").value, shared: byId("begin-shared").checked, relevant, irrelevant, where });
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body };
  try {
    const { id } = await (await request(`/v1/cohorts${collectionQuery(start)}`, options)).json();
    forgetStart();
    location.assign(`/cohorts/${encodeURIComponent(id)}`);
  } catch (error) {
    byId("begin-problem").textContent = error.message;
    byId("begin-problem").hidden = false;
    byId("begin-confirm").disabled = false;
  }
}

byId("begin").addEventListener("submit", begin);
byId("begin-cancel").addEventListener("click", () => {
  forgetStart();
  showStart();
});
byId("load-more").addEventListener("click", () => load(next));
byId("retry").addEventListener("click", () => load());
byId("list").addEventListener("click", (event) => {
  const id = event.target.closest("[data-remove]")?.dataset.remove;
  if (!id) return;
  deleteCohort.ask(saved.get(id), () => {
    saved.delete(id);
    show();
  });
});
deleteCohort.install();
showStart();
load();
