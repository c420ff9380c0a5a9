"""Measures by name: those of ir-measures, and those of image retrieval that it does not have."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.metrics import anmrr, knn_error, trec_eval, voting
from cbir.evaluation.metrics.interpolated_precision import interpolated_precision
from cbir.evaluation.qrels import Qrels
from cbir.evaluation.run_matrix import JudgedBlock, RunMatrix, judged_blocks

__all__ = ["Metric", "check_metric_gains", "compute_metrics", "parse_metrics"]

Values = NDArray[np.float64]

WITH_CUTOFF: dict[str, Callable[[JudgedBlock, int], Values]] = {
    "mAP": voting.precision_of_retrieved,
    "mMV": voting.majority_vote,
    "ACC": voting.accuracy,
    "kNNError": knn_error.knn_error,
}
LOWER_IS_BETTER = ("ANMRR", "kNNError")
FORM = re.compile(r"(\w+)(?:@([0-9.]+))?")
BETWEEN = re.compile(r"[\s,]+(?![^()]*\))")  # not inside of parentheses, as in nDCG(gains={0:0,1:2})@10


@dataclass(frozen=True)
class Metric:
    """name: as typed. own: what computes it here, None where ir-measures does. depth: answers it looks at, 0: all."""

    name: str
    own: Callable[[JudgedBlock], Values] | None
    depth: int = 0

    @property
    def lower_is_better(self) -> bool:
        return self.name.startswith(LOWER_IS_BETTER)


def parse_metrics(text: str) -> list[Metric]:
    """The measures named in `text`, with spaces or commas between; raises InvalidInput for one not known."""
    names = [name for name in dict.fromkeys(BETWEEN.split(text)) if name]
    if not names:
        raise InvalidInput('no measure is named; write for instance --measures "AP P@10 nDCG@10"')
    return [_measure(name) for name in names]


def _measure(name: str) -> Metric:
    found = FORM.fullmatch(name)
    kind, value = found.groups() if found else (name, None)
    if kind == "ANMRR":
        if value:
            raise InvalidInput("ANMRR has no cut-off; its depth follows from the number of relevant images")
        return Metric(name, anmrr.nmrr)
    if kind == "IPrec" and value:
        recall = _number(name, value)
        return Metric(name, lambda judged: interpolated_precision(judged, [recall])[:, 0])
    if kind in WITH_CUTOFF:
        if not value or not value.isdecimal() or int(value) < 1:
            raise InvalidInput(f"the measure '{name}' needs a number of answers, for instance {kind}@5")
        compute, k = WITH_CUTOFF[kind], int(value)
        return Metric(name, lambda judged: compute(judged, k), k)
    cutoff = trec_eval.parse_trec_measure(name).params.get("cutoff")
    return Metric(name, None, cutoff or 0)


def _number(name: str, value: str) -> float:
    try:
        recall = float(value)
    except ValueError:
        recall = -1.0
    if not 0.0 <= recall <= 1.0:
        raise InvalidInput(f"the measure '{name}' needs a recall from 0 to 1, for instance IPrec@0.5")
    return recall


def check_metric_gains(measures: Sequence[Metric], largest: int) -> None:
    """Raises InvalidInput where one of the measures cannot be computed with gains up to `largest`."""
    for measure in measures:
        if measure.own is None:
            trec_eval.check_trec_gains(trec_eval.parse_trec_measure(measure.name), largest)


def compute_metrics(measures: Sequence[Metric], answers: RunMatrix, judgements: Qrels) -> Values:
    """Values (m, q) of the measures for each query of the judgements, in their order."""
    named = [m for m in measures if m.own is None]
    theirs = [trec_eval.with_level(trec_eval.parse_trec_measure(m.name), judgements.level) for m in named]
    values = np.empty((len(measures), len(answers.places)))
    from_theirs = [place for place, m in enumerate(measures) if m.own is None]
    for which, judged in judged_blocks(answers, judgements):
        for place, measure in enumerate(measures):
            if measure.own is not None:
                values[place, which] = measure.own(judged)
        values[from_theirs, which] = trec_eval.compute_trec(
            theirs, answers.places[which], judgements.places[which], judgements.gains[which]
        )
    return values
