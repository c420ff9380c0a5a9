// Decisions about pairs and images as a person reads them, and what changing one of them takes.

import { tr } from "../../translate.js";

const PAIR = { first: tr("Left more severe"), second: tr("Right more severe"), alike: tr("Equal"), skip: tr("Skipped") };

/** The text of a decision; grades: of the study. */
export function decisionText(decision, grades) {
  if (decision in PAIR) return PAIR[decision];
  if (decision === "none") return tr("Cannot judge");
  return tr("Grade {name}", { name: grades.find(({ value }) => value === decision)?.name ?? decision });
}

/** Decisions that an answer can be changed to; grades: of the study. */
export function choices({ kind }, grades) {
  return kind === "pair" ? Object.keys(PAIR) : [...grades.map(({ value }) => value), "none"];
}

/** Address and body that replace an answer by another decision. */
export function changeRequest({ kind, first, second, image }, decision) {
  if (kind === "pair") return ["/annotate/judgements", { first, second, answer: decision }];
  return ["/annotate/grades", { image, grade: decision === "none" ? null : Number(decision) }];
}

/** Names of the answers that have to be undone, in order, so that nothing remains of an answer. */
export function withdrawnNames({ name, earlier }) {
  return [...earlier.map((answer) => answer.name), name];
}

/** Parameters of the filters that are set. */
export function filterParameters(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value));
}
