// The page of what was judged: filters, cards, changes, agreement.

import { attempt, problemBox } from "../../list_page.js";
import { state, subscribe, update } from "../../page_state.js";
import { byId } from "../../theme.js";
import { tr, trn } from "../../translate.js";
import { html, nothing, render, repeat } from "../../vendor/lit.js";
import { facts, load, personName, send, signed } from "../study_facts.js";
import { agreementTables, answerCard, changeRequest, decisionText, withdrawnNames } from "./answer_card.js";

const LIMIT = 24; // cards per request

const who = await personName();
Object.assign(state, { filters: { judged_by: who, decision: "", disagreement: "" }, answers: [], total: null, people: [who], decisions: [], agreement: null, problem: null });

const union = (known, found) => [...new Set([...known, ...found])]; // so that what is chosen stays

async function loadAnswers(offset = 0) {
  const found = await load("/annotate/judgements", { ...state.filters, offset, limit: LIMIT });
  const answers = [...state.answers.slice(0, offset), ...found.answers];
  update({ answers, total: found.total, people: union(state.people, found.people), decisions: union(state.decisions, found.decisions.map(({ decision }) => decision)) });
}

const loadAll = () => Promise.all([loadAnswers(), load("/annotate/agreement").then((agreement) => update({ agreement }))]);

function sendAll(requests) {
  const named = requests.map(([address, body]) => [address, signed({ name: crypto.randomUUID(), ...body }, who)]); // each counts once, however often it is sent
  attempt(async () => {
    for (const [address, body] of named) await send(address, body);
    await loadAll();
  });
}

const callbacks = {
  change(answer, decision) {
    const [address, body] = changeRequest(answer, decision);
    sendAll([[address, { seconds: 0, ...body }]]);
  },
  withdraw: (answer) => sendAll(withdrawnNames(answer).map((undoes) => ["/annotate/undo", { undoes }])),
};

function filter(name, title, options) {
  const choose = ({ target }) => {
    update({ filters: { ...state.filters, [name]: target.value } });
    attempt(() => loadAnswers());
  };
  return html`<div class="field"><label for=${name}>${title}</label><select id=${name} @change=${choose}>
    ${repeat(options, ([value]) => value, ([value, text]) => html`<option value=${value} .selected=${state.filters[name] === value}>${text}</option>`)}</select></div>`;
}

subscribe(({ answers, total, people, decisions, agreement, problem }) => {
  render(problemBox({ problem }), byId("trouble"));
  render(html`${filter("judged_by", tr("Judged by"), [["", tr("Everyone")], ...people.map((name) => [name, name])])}
    ${filter("decision", tr("Decision"), [["", tr("Any")], ...decisions.map((each) => [each, decisionText(each, facts.grades)])])}
    ${filter("disagreement", tr("Disagreement"), [["", tr("With or without")], ["people", tr("Between people")], ["model", tr("With the model")]])}`, byId("filters"));
  render(html`<p class="count" id="count" role="status">${total === null ? "" : total ? trn("{count} answer", "{count} answers", total) : tr("No answers match.")}</p>
    <ul class="judged" id="judged" role="list">${repeat(answers, ({ name }) => name, (answer) => answerCard(answer, answer.who === who, callbacks))}</ul>
    ${answers.length < total ? html`<button class="button" type="button" id="more-answers" @click=${() => attempt(() => loadAnswers(answers.length))}>${tr("Show more")}</button>` : nothing}`, byId("answers"));
  render(agreement ? agreementTables(agreement) : nothing, byId("agreement"));
});
await attempt(loadAll);
