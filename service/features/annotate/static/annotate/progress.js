// The progress of a study in words.

import { fixed, tr, trn } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { isPairs, secondsOf, writeSeverity } from "./judging.js";

const RATE_WINDOW = 20; // judgements that the rate is averaged over

function countText({ round, rounds, done, of, judged, graded, graded_by_you: own, images }) {
  if (!isPairs) return [trn("{own} of {count} image graded by you", "{own} of {count} images graded by you", images, { own }), tr("{graded} graded by anyone", { graded })].join(" · ");
  const parts = [tr("Round {round} of {rounds}", { round, rounds }), trn("{done} of {count} pair", "{done} of {count} pairs", of, { done }), tr("{judged} judged by you", { judged })];
  if (graded) parts.push(trn("{count} image graded", "{count} images graded", graded));
  return parts.join(" · ");
}

function trainingText({ learning, learnt, trained_on: trainedOn }) {
  if (learning === "failed") return tr("Training failed; see the server log. You can go on judging.");
  if (learning === "learning") return learnt ? tr("Training … (last trained after round {round})", { round: learnt }) : tr("Training …");
  if (learnt) return tr("Trained after round {round}", { round: learnt });
  return trainedOn ? tr("Trained on the grades so far") : "";
}

function rateText(now) {
  const recent = secondsOf(now).slice(-RATE_WINDOW);
  if (!recent.length) return "";
  const mean = recent.reduce((sum, time) => sum + time, 0) / recent.length;
  const values = { seconds: fixed(mean, 1), rate: Math.round(60 / Math.max(mean, 0.1)) };
  return isPairs ? tr("{seconds} s per pair · {rate} per minute", values) : tr("{seconds} s per image · {rate} per minute", values);
}

function agreementText({ people, pairs, alpha }) {
  const values = { people, alpha: alpha === null ? tr("not yet defined") : fixed(alpha, 2) };
  return trn("Agreement of {people} people: α {alpha} on {count} pair", "Agreement of {people} people: α {alpha} on {count} pairs", pairs, values);
}

/** What is judged, how fast, and what is learnt from it. */
export function standing(now) {
  const { progress, agreement, unsent, written } = now;
  const [value, max] = !progress ? [0, 1] : isPairs ? [progress.done, progress.of] : [progress.graded_by_you, progress.images];
  return html`<section class="standing" aria-label=${tr("Progress")}>
    <progress id="bar" max=${Math.max(max, 1)} .value=${value} aria-label=${isPairs ? tr("Pairs of this round") : tr("Images graded by you")}></progress>
    <p id="round">${progress ? countText(progress) : ""}</p>
    <p id="rate">${rateText(now)}</p>
    <p id="learning" role="status">${progress ? trainingText(progress) : ""}</p>
    <p id="agreement">${agreement ? agreementText(agreement) : ""}</p>
    <p id="unsent" role="status">${unsent > 1 ? trn("{count} answer not saved yet", "{count} answers not saved yet", unsent) : ""}</p>
    ${progress?.trained_on ? html`<button class="button" type="button" id="write" ?disabled=${written === "sending"} @click=${writeSeverity}>${tr("Write severity to the collection")}</button>` : nothing}
    <p id="written" role="status">${written?.images ? tr("{images} images now have the label {label}", written) : ""}</p>
  </section>`;
}
