// A judged pair or image: pictures, decision, disagreement, history, how to change it and what that takes; and the agreement of the annotators.

import { picture } from "../../card.js";
import { fixed, language, number, tr, trn } from "../../translate.js";
import { html, nothing } from "../../vendor/lit.js";
import { openPictures } from "../../viewer/large.js";
import { facts, sliceOf, sourceOf } from "../study_facts.js";

const PAIR = { first: tr("Left more severe"), second: tr("Right more severe"), alike: tr("Equal"), skip: tr("Skipped") };

export function decisionText(decision, grades) {
  if (decision in PAIR) return PAIR[decision];
  if (decision === "none") return tr("Cannot judge");
  return tr("Grade {name}", { name: grades.find(({ value }) => value === decision)?.name ?? decision });
}

/** Decisions that an answer can be changed to; grades: of the study. */
export const choices = ({ kind }, grades) => (kind === "pair" ? Object.keys(PAIR) : [...grades.map(({ value }) => value), "none"]);

/** Address and body that replace an answer by another decision. */
export function changeRequest({ kind, first, second, image }, decision) {
  if (kind === "pair") return ["/annotate/judgements", { first, second, answer: decision }];
  return ["/annotate/grades", { image, grade: decision === "none" ? null : Number(decision) }];
}

/** Names of the answers that have to be undone, in order, so that nothing remains of an answer. */
export const withdrawnNames = ({ name, earlier }) => [...earlier.map((answer) => answer.name), name];

const SIDE = 256; // pixels of a small picture
const NO_OPINION = ["skip", "none"]; // decisions that contradict nobody

const textOf = ({ decision }) => decisionText(decision, facts.grades);
const timeOf = ({ at }) => new Date(at).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });

function pictures(answer) {
  const views = answer.kind === "pair" ? [[answer.first, tr("Left image"), "first"], [answer.second, tr("Right image"), "second"]] : [[answer.image, tr("Image"), ""]];
  const open = () => openPictures([views.map(([id, caption]) => ({ source: sourceOf(id), caption }))]);
  return html`<div class="small-pictures">${views.map(([id, caption, side]) => html`<button class=${answer.decision === side ? "film chosen" : "film"} type="button" aria-label=${caption} @click=${open}>${picture(sliceOf(id, { side: SIDE }).address)}</button>`)}</div>`;
}

function notes(answer) {
  const note = (isContrary, text) => html`<p class=${isContrary ? "flag" : "hint"}>${text}</p>`;
  return [
    answer.contradicts_model ? note(true, tr("Differs from the model")) : nothing,
    ...answer.others.map((other) => note(other.decision !== answer.decision && !NO_OPINION.includes(other.decision), tr("{who}: {decision}", { who: other.who, decision: textOf(other) }))),
    ...answer.earlier.map((earlier) => note(false, tr("Before, {time}: {decision}", { time: timeOf(earlier), decision: textOf(earlier) }))),
  ];
}

function actions(answer, { change, withdraw }) {
  const option = (decision) => html`<option value=${decision} .selected=${decision === answer.decision}>${decisionText(decision, facts.grades)}</option>`;
  return html`<div class="actions"><select aria-label=${tr("Decision")} @change=${({ target }) => change(answer, target.value)}>${choices(answer, facts.grades).map(option)}</select>
    <button class="button" type="button" @click=${() => withdraw(answer)}>${tr("Withdraw")}</button></div>`;
}

/** The list item of an answer; isOwn: the person may change it by actions {change(answer, decision), withdraw(answer)}. */
export function answerCard(answer, isOwn, callbacks) {
  return html`<li class="card" data-name=${answer.name}>${pictures(answer)}<div class="words">
    <p class="label">${textOf(answer)}</p>
    <p class="hint">${tr("{who} · {time} · {seconds} s", { who: answer.who, time: timeOf(answer), seconds: fixed(answer.seconds, 1) })}</p>
    ${notes(answer)}${isOwn ? actions(answer, callbacks) : nothing}
  </div></li>`;
}

const decimals = (value) => (value === null ? "–" : fixed(value, 2));

const row = ({ one, other, pairs, agreed, kappa }) =>
  html`<tr><td>${tr("{one} and {other}", { one, other })}</td><td>${number(pairs)}</td><td>${number(agreed)} (${number(agreed / pairs, { style: "percent" })})</td><td>${decimals(kappa)}</td></tr>`;

function part({ pairs, people, alpha, between }, summary) {
  if (!pairs) return nothing;
  const titles = [tr("People"), tr("Both judged"), tr("Same answer"), tr("Cohen's κ")];
  return html`<p>${summary(pairs, { people, alpha: decimals(alpha) })}</p>
    <table><thead><tr>${titles.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead><tbody>${between.filter((each) => each.pairs).map(row)}</tbody></table>`;
}

const ofPairs = (count, values) => trn("{people} people, {count} pair judged by two or more: Krippendorff's α {alpha}", "{people} people, {count} pairs judged by two or more: Krippendorff's α {alpha}", count, values);
const ofGrades = (count, values) => trn("{people} people, {count} image graded by two or more: Krippendorff's α {alpha}", "{people} people, {count} images graded by two or more: Krippendorff's α {alpha}", count, values);

export function agreementTables({ judgements, grades }) {
  if (!judgements.pairs && !grades.pairs) return html`<p class="hint">${tr("Nothing was judged by two people yet.")}</p>`;
  return [part(judgements, ofPairs), part(grades, ofGrades)];
}
