// Texts of decisions.

import { tr } from "/static/translate.js";

/** The text of a decision; grades: of the study. */
export function decisionText(kind, decision, grades) {
  if (kind === "pair") {
    const texts = { first: tr("Left more severe"), second: tr("Right more severe"), alike: tr("Equal"), skip: tr("Skipped") };
    return texts[decision];
  }
  if (decision === "none") return tr("Cannot judge");
  const name = grades.find(({ value }) => value === decision)?.name ?? decision;
  return tr("Grade {name}", { name });
}

/** A time of the server as the language writes it. */
export function timeText(at, language) {
  return new Date(at).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
}
