// The bar of judgements, at the bottom as soon as something is marked.

import { callParts } from "../page_parts.js";
import { asText, changes } from "../rounds.js";
import { tr, trn } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { clearMarks, refine, undoRound } from "./run.js";
import { searchedMarks } from "./search_fields.js";

function round(changed, index) {
  const values = { round: index + 1, count: changed.size };
  return html`<li><button class="pill" type="button" data-round=${index} aria-label=${tr("Undo round {round}, {count} judged", values)} @click=${() => undoRound(index)}>${tr("Round {round} · {count}", values)} <span aria-hidden="true">×</span></button></li>`;
}

/** The bar for a state; nothing without marks. */
export function markBar(now) {
  const { marks, rounds } = now;
  if (!marks.size && !rounds.length) return nothing;
  const liked = [...marks.values()].filter((value) => value > 0).length;
  const words = [liked && trn("{count} like this", "{count} like this", liked), marks.size - liked && trn("{count} not", "{count} not", marks.size - liked)].filter(Boolean).join(", ");
  return html`<div class="mark-bar" id="rounds" role="group" aria-label=${tr("Judgements")}>
    <p role="status" id="judged">${words || tr("Nothing marked")}</p>
    <button class="button primary" type="button" id="learn" ?disabled=${asText(marks) === searchedMarks(now)} @click=${refine}>${tr("Refine")}</button>
    ${callParts("marked", now)}
    <button class="button" type="button" id="unjudge" @click=${clearMarks}>${tr("Clear")}</button>
    ${rounds.length ? html`<ol class="rounds" role="list" aria-label=${tr("Rounds")}>${changes(rounds).map(round)}</ol>` : nothing}
  </div>`;
}
