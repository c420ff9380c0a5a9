// How far the study is, in words.

const at = (id) => document.getElementById(id);
const LAST = 20; // judgements that the rate is of

const LEARNING = {
  learning: (progress) => `Learning … ${progress.learnt ? `(learnt after round ${progress.learnt})` : ""}`,
  failed: () => "Learning failed; the server's log says why. Judging goes on.",
  idle: (progress) => (progress.learnt ? `Learnt after round ${progress.learnt}` : ""),
};

/** progress: as the server says. */
export function show(progress) {
  const { done, of, round, rounds } = progress;
  Object.assign(at("bar"), { max: Math.max(of, 1), value: done });
  at("round").textContent = `Round ${round} of ${rounds} · ${done} of ${of} pairs · ${progress.judged} judged by you`;
  at("learning").textContent = LEARNING[progress.learning](progress);
  at("write").hidden = !progress.learnt;
}

/** seconds: of the last judgements. */
export function rate(seconds) {
  const last = seconds.slice(-LAST);
  const mean = last.reduce((sum, one) => sum + one, 0) / last.length;
  at("rate").textContent = last.length ? `${mean.toFixed(1)} s a pair · ${Math.round(60 / Math.max(mean, 0.1))} a minute` : "";
}

/** agreement: as the server says, null where no two people judged the same. */
export function agreed(agreement) {
  if (!agreement) at("agreement").textContent = "";
  else {
    const alpha = agreement.alpha === null ? "not defined yet" : agreement.alpha.toFixed(2);
    at("agreement").textContent = `Agreement of ${agreement.people} people: α ${alpha} on ${agreement.pairs} pairs`;
  }
}

/** count: of the judgements that are not on the server's disk. */
export function unsent(count) {
  at("unsent").textContent = count > 1 ? `${count} answers not saved yet` : "";
}
