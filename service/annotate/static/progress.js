// The progress of the study.

import { byId } from "/static/dom.js";

const RATE_WINDOW = 20; // judgements that the rate is averaged over

const LEARNING = {
  learning: (progress) => `Training … ${progress.learnt ? `(last trained after round ${progress.learnt})` : ""}`,
  failed: () => "Training failed; see the server log. You can go on judging.",
  idle: (progress) => (progress.learnt ? `Trained after round ${progress.learnt}` : ""),
};

/** progress: from the server. */
export function showProgress(progress) {
  const { done, of, round, rounds } = progress;
  const graded = progress.graded ? ` · ${progress.graded} images graded` : "";
  Object.assign(byId("bar"), { max: Math.max(of, 1), value: done });
  byId("round").textContent = `Round ${round} of ${rounds} · ${done} of ${of} pairs · ${progress.judged} judged by you${graded}`;
  byId("learning").textContent = LEARNING[progress.learning](progress);
  byId("write").hidden = !progress.learnt;
}

/** seconds: times of the last judgements. */
export function showRate(seconds) {
  const recent = seconds.slice(-RATE_WINDOW);
  const mean = recent.reduce((sum, time) => sum + time, 0) / recent.length;
  byId("rate").textContent = recent.length ? `${mean.toFixed(1)} s per pair · ${Math.round(60 / Math.max(mean, 0.1))} per minute` : "";
}

/** agreement: from the server; null if no pair was judged by two people. */
export function showAgreement(agreement) {
  if (!agreement) byId("agreement").textContent = "";
  else {
    const alpha = agreement.alpha === null ? "not yet defined" : agreement.alpha.toFixed(2);
    byId("agreement").textContent = `Agreement of ${agreement.people} people: α ${alpha} on ${agreement.pairs} pairs`;
  }
}

/** count: number of judgements that the server has not stored yet. */
export function showUnsent(count) {
  byId("unsent").textContent = count > 1 ? `${count} answers not saved yet` : "";
}
