// The page of what was judged: filters, cards, changes, agreement.

import { byId, element } from "/static/dom.js";
import { trn, tr } from "/static/translate.js";
import { annotatorName, changeAnnotator, isIdentified } from "../annotator.js";
import { showError } from "../covers.js";
import { postJson, request } from "../server.js";
import { agreementParts } from "./agreement_table.js";
import { answerCard } from "./answer_card.js";
import { decisionText } from "./decision_texts.js";
import { changeRequest, filterParameters, withdrawnNames } from "./decisions.js";

const LIMIT = 24; // cards per request
const FILTERS = ["by", "decision", "disagreement"];

const list = byId("judged");
const grades = JSON.parse(list.dataset.grades);

byId("somebody-else")?.addEventListener("click", changeAnnotator);
const annotator = await annotatorName();
byId("person").textContent = annotator;

function filters() {
  return filterParameters(Object.fromEntries(FILTERS.map((id) => [byId(id).name, byId(id).value])));
}

/** Fill a select with further options, once for each value. */
function addOptions(id, options) {
  const known = new Set([...byId(id).options].map(({ value }) => value));
  for (const [value, text] of options) {
    if (!known.has(value)) byId(id).append(Object.assign(element("option", "", text), { value }));
  }
}

function decisionOptions(decisions) {
  const pairs = new Set(["first", "alike", "second", "skip"]);
  return decisions.map(({ decision }) => [decision, decisionText(pairs.has(decision) ? "pair" : "grade", decision, grades)]);
}

/** Load answers after those on the page, or from the first one. */
async function load(isFresh) {
  const shown = isFresh ? 0 : list.children.length;
  const query = new URLSearchParams({ ...filters(), offset: shown, limit: LIMIT });
  try {
    const response = await (await request(`/annotate/judgements?${query}`)).json();
    addOptions("by", response.people.map((name) => [name, name]));
    addOptions("decision", decisionOptions(response.decisions));
    const cards = response.answers.map((answer) =>
      answerCard(answer, grades, answer.who === annotator, { onChange: change, onWithdraw: withdraw }),
    );
    if (isFresh) list.replaceChildren(...cards);
    else list.append(...cards);
    byId("more").hidden = list.children.length >= response.total;
    byId("count").textContent = response.total
      ? trn("{count} answer", "{count} answers", response.total)
      : tr("No answers match.");
    showError(null);
  } catch (error) {
    showError(error);
  }
}

async function loadAgreement() {
  try {
    byId("agreement").replaceChildren(...agreementParts(await (await request("/annotate/agreement")).json()));
  } catch (error) {
    showError(error);
  }
}

async function send(address, fields) {
  const body = { name: crypto.randomUUID(), ...fields };
  await postJson(address, isIdentified() ? body : { ...body, who: annotator });
}

/** Run requests, then show the answers as they are now. */
async function update(requests) {
  try {
    for (const [address, body] of requests) await send(address, body);
    showError(null);
  } catch (error) {
    showError(error);
    return;
  }
  await Promise.all([load(true), loadAgreement()]);
}

function change(answer, decision) {
  const [address, body] = changeRequest(answer, decision);
  return update([[address, { seconds: 0, ...body }]]);
}

function withdraw(answer) {
  return update(withdrawnNames(answer).map((undoes) => ["/annotate/undo", { undoes }]));
}

addOptions("by", [[annotator, annotator]]);
byId("by").value = annotator;
byId("filters").addEventListener("submit", (event) => event.preventDefault());
for (const id of FILTERS) byId(id).addEventListener("change", () => load(true));
byId("more").addEventListener("click", () => load(false));
await Promise.all([load(true), loadAgreement()]);
