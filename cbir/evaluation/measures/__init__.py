"""Measures by name: those of ir-measures, and those of image retrieval that it does not have."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.answers import Answers, Judged, blocks
from cbir.evaluation.judgements import Judgements
from cbir.evaluation.measures import anmrr, medmnist, neighbours, trec_eval
from cbir.evaluation.measures.interpolated import interpolated_precision

__all__ = ["Measure", "check_gains", "evaluate", "parse"]

Values = NDArray[np.float64]

WITH_CUTOFF: dict[str, Callable[[Judged, int], Values]] = {
    "mAP": medmnist.average_precision,
    "mMV": medmnist.majority_vote,
    "ACC": medmnist.accuracy,
    "kNNError": neighbours.error,
}
LOWER_IS_BETTER = ("ANMRR", "kNNError")
FORM = re.compile(r"(\w+)(?:@([0-9.]+))?")
BETWEEN = re.compile(r"[\s,]+(?![^()]*\))")  # not inside of parentheses, as in nDCG(gains={0:0,1:2})@10


@dataclass(frozen=True)
class Measure:
    """name: as typed. own: what computes it here, None where ir-measures does. depth: answers it looks at, 0: all."""

    name: str
    own: Callable[[Judged], Values] | None
    depth: int = 0

    @property
    def lower_is_better(self) -> bool:
        return self.name.startswith(LOWER_IS_BETTER)


def parse(text: str) -> list[Measure]:
    """The measures named in `text`, with spaces or commas between; raises InvalidInput for one not known."""
    names = [name for name in dict.fromkeys(BETWEEN.split(text)) if name]
    if not names:
        raise InvalidInput('no measure is named; write for instance --measures "AP P@10 nDCG@10"')
    return [_measure(name) for name in names]


def _measure(name: str) -> Measure:
    found = FORM.fullmatch(name)
    kind, value = found.groups() if found else (name, None)
    if kind == "ANMRR":
        if value:
            raise InvalidInput("ANMRR has no cut-off; its depth follows from the number of relevant images")
        return Measure(name, anmrr.nmrr)
    if kind == "IPrec" and value:
        recall = _number(name, value)
        return Measure(name, lambda judged: interpolated_precision(judged, [recall])[:, 0])
    if kind in WITH_CUTOFF:
        if not value or not value.isdecimal() or int(value) < 1:
            raise InvalidInput(f"the measure '{name}' needs a number of answers, for instance {kind}@5")
        compute, k = WITH_CUTOFF[kind], int(value)
        return Measure(name, lambda judged: compute(judged, k), k)
    cutoff = trec_eval.parse(name).params.get("cutoff")
    return Measure(name, None, cutoff or 0)


def _number(name: str, value: str) -> float:
    try:
        recall = float(value)
    except ValueError:
        recall = -1.0
    if not 0.0 <= recall <= 1.0:
        raise InvalidInput(f"the measure '{name}' needs a recall from 0 to 1, for instance IPrec@0.5")
    return recall


def check_gains(measures: Sequence[Measure], largest: int) -> None:
    """Raises InvalidInput where one of the measures cannot be computed with gains up to `largest`."""
    for measure in measures:
        if measure.own is None:
            trec_eval.check_gains(trec_eval.parse(measure.name), largest)


def evaluate(measures: Sequence[Measure], answers: Answers, judgements: Judgements) -> Values:
    """Values (m, q) of the measures for each query of the judgements, in their order."""
    named = [m for m in measures if m.own is None]
    theirs = [trec_eval.at_level(trec_eval.parse(m.name), judgements.level) for m in named]
    values = np.empty((len(measures), len(answers.places)))
    from_theirs = [place for place, m in enumerate(measures) if m.own is None]
    for which, judged in blocks(answers, judgements):
        for place, measure in enumerate(measures):
            if measure.own is not None:
                values[place, which] = measure.own(judged)
        values[from_theirs, which] = trec_eval.compute(
            theirs, answers.places[which], judgements.places[which], judgements.gains[which]
        )
    return values
