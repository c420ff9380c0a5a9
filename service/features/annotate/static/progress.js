// The progress of the study.

import { byId } from "/static/dom.js";
import { fixed, tr, trn } from "/static/translate.js";

const RATE_WINDOW = 20; // judgements that the rate is averaged over

function pairProgress({ round, rounds, done, of, judged, graded }) {
  const parts = [
    tr("Round {round} of {rounds}", { round, rounds }),
    trn("{done} of {count} pair", "{done} of {count} pairs", of, { done }),
    tr("{judged} judged by you", { judged }),
  ];
  if (graded) parts.push(trn("{count} image graded", "{count} images graded", graded));
  return parts.join(" · ");
}

function imageProgress({ graded_by_you: own, images, graded }) {
  const parts = [trn("{own} of {count} image graded by you", "{own} of {count} images graded by you", images, { own })];
  parts.push(tr("{graded} graded by anyone", { graded }));
  return parts.join(" · ");
}

function trainingText({ learning, learnt, trained_on: trainedOn }) {
  if (learning === "failed") return tr("Training failed; see the server log. You can go on judging.");
  if (learning === "learning") {
    return learnt ? tr("Training … (last trained after round {round})", { round: learnt }) : tr("Training …");
  }
  if (learnt) return tr("Trained after round {round}", { round: learnt });
  return trainedOn ? tr("Trained on the grades so far") : "";
}

/** progress: from the server; task: "pairs" or "images". */
export function showProgress(progress, task) {
  const isPairs = task === "pairs";
  const [value, max] = isPairs ? [progress.done, progress.of] : [progress.graded_by_you, progress.images];
  Object.assign(byId("bar"), { max: Math.max(max, 1), value });
  byId("round").textContent = isPairs ? pairProgress(progress) : imageProgress(progress);
  byId("learning").textContent = trainingText(progress);
  byId("write").hidden = !progress.trained_on;
}

/** seconds: times of the last judgements; task: "pairs" or "images". */
export function showRate(seconds, task) {
  const recent = seconds.slice(-RATE_WINDOW);
  const mean = recent.reduce((sum, time) => sum + time, 0) / recent.length;
  const values = { seconds: fixed(mean, 1), rate: Math.round(60 / Math.max(mean, 0.1)) };
  const text = () =>
    task === "pairs"
      ? tr("{seconds} s per pair · {rate} per minute", values)
      : tr("{seconds} s per image · {rate} per minute", values);
  byId("rate").textContent = recent.length ? text() : "";
}

/** agreement: from the server; null or undefined if no pair was judged by two people. */
export function showAgreement(agreement) {
  if (!agreement) {
    byId("agreement").textContent = "";
    return;
  }
  const { people, pairs, alpha } = agreement;
  const values = { people, alpha: alpha === null ? tr("not yet defined") : fixed(alpha, 2) };
  byId("agreement").textContent = trn(
    "Agreement of {people} people: α {alpha} on {count} pair",
    "Agreement of {people} people: α {alpha} on {count} pairs",
    pairs,
    values,
  );
}

/** count: number of judgements that the server has not stored yet. */
export function showUnsent(count) {
  byId("unsent").textContent = count > 1 ? trn("{count} answer not saved yet", "{count} answers not saved yet", count) : "";
}
