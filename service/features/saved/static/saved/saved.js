// The pages of what is kept: the list of cases and cohorts, a case, a cohort.

import "../shell.js";
import * as casePage from "../cases/case.js";
import * as cohortPage from "../cohorts/cohort.js";
import { state, subscribe, update } from "../page_state.js";
import { html, render } from "../vendor/lit.js";
import * as listPage from "./list.js";

const main = document.getElementById("saved");
const page = { list: listPage, case: casePage, cohort: cohortPage }[main.dataset.page];
const facts = JSON.parse(main.dataset.facts);

Object.assign(state, {
  facts, // what the service says: {several, is_admin, ...}
  busy: false,
  problem: null, // {message, again}
  said: "", // for screen readers
  ...page.begin(facts),
});
subscribe((now) => {
  if (now.saved) document.title = [now.saved.title, "cbir"].join(" · ");
  render(html`${page.draw(now)}<p class="unseen" id="said" role="status">${now.said}</p>`, main);
});
update({});
page.start();
