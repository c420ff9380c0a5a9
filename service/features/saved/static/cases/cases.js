// The page of saved cases: a list that is searched while one types.

import { request } from "../api.js";
import { byId } from "../dom.js";
import { trn } from "../translate.js";
import "../theme.js";
import { caseItem } from "./case_item.js";
import * as deleteCase from "./delete_case.js";

const DELAY = 200; // ms from the last letter to the search

const { several, admin } = byId("cases").dataset;
let saved = new Map(); // the cases that are shown, by id
let next = null; // cursor of the next page
let loading = new AbortController();
let timer = 0;

async function load(cursor) {
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const query = new URLSearchParams({ words: byId("words").value });
  if (cursor) query.set("cursor", cursor);
  try {
    const page = await (await request(`/v1/cases?${query}`, { signal })).json();
    if (!cursor) saved = new Map();
    for (const item of page.items) saved.set(item.id, item);
    next = page.next;
    byId("problem").hidden = true;
    show();
  } catch (error) {
    if (signal.aborted) return;
    byId("problem").querySelector("p").textContent = error.message;
    byId("problem").hidden = false;
  }
}

function show() {
  const items = [...saved.values()].map((item) =>
    caseItem(item, { several: several !== undefined, canDelete: item.mine || admin !== undefined }),
  );
  byId("list").replaceChildren(...items);
  byId("none").hidden = Boolean(items.length || next);
  byId("load-more").hidden = !next;
  byId("status").textContent = trn("{count} case", "{count} cases", items.length);
}

byId("words").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => load(), DELAY);
});
byId("load-more").addEventListener("click", () => load(next));
byId("retry").addEventListener("click", () => load());
byId("list").addEventListener("click", (event) => {
  const id = event.target.closest("[data-remove]")?.dataset.remove;
  if (!id) return;
  deleteCase.ask(saved.get(id), () => {
    saved.delete(id);
    show();
    byId("words").focus();
  });
});
deleteCase.install();
load();
