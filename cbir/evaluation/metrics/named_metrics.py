"""Metrics by name: those of ir-measures, and metrics of image retrieval that it lacks."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.metrics import anmrr, knn_error, trec_eval, voting
from cbir.evaluation.metrics.capped_precision import capped_precision
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
    "cappedP": capped_precision,
}
LOWER_IS_BETTER = ("ANMRR", "kNNError")
FORM = re.compile(r"(\w+)(?:@([0-9.]+))?")
NAME = re.compile(r"(?:[^\s,()]|\([^()]*\)|[()])+")  # parentheses may hold commas: nDCG(gains={0:0,1:2})@10


@dataclass(frozen=True)
class Metric:
    """A metric.

    name: as typed. compute: None for those of ir-measures. depth: answers that it reads, 0: all.
    """

    name: str
    compute: Callable[[JudgedBlock], Values] | None
    depth: int = 0

    @property
    def lower_is_better(self) -> bool:
        """True for error rates and ANMRR."""
        return self.name.startswith(LOWER_IS_BETTER)


def parse_metrics(text: str) -> list[Metric]:
    """Parse names separated by spaces or commas; raise InvalidInput for an unknown one."""
    names = list(dict.fromkeys(NAME.findall(text)))
    if not names:
        raise InvalidInput('name at least one measure, for instance --measures "AP P@10 nDCG@10"')
    return [_parse_metric(name) for name in names]


def _parse_metric(name: str) -> Metric:
    match = FORM.fullmatch(name)
    kind, value = match.groups() if match else (name, None)
    if kind == "ANMRR":
        if value:
            raise InvalidInput("ANMRR has no cut-off; its depth follows from the number of relevant images")
        return Metric(name, anmrr.nmrr)
    if kind == "IPrec" and value:
        try:
            recall = float(value)
        except ValueError:
            recall = -1.0
        if not 0.0 <= recall <= 1.0:
            raise InvalidInput(f"the measure '{name}' needs a recall from 0 to 1, for instance IPrec@0.5")
        return Metric(name, lambda judged: interpolated_precision(judged, [recall])[:, 0])
    if kind in WITH_CUTOFF:
        if not value or not value.isdecimal() or int(value) < 1:
            raise InvalidInput(f"the measure '{name}' needs a number of answers, for instance {kind}@5")
        compute, k = WITH_CUTOFF[kind], int(value)
        return Metric(name, lambda judged: compute(judged, k), k)
    cutoff = trec_eval.parse_trec_measure(name).params.get("cutoff")
    return Metric(name, None, cutoff or 0)


def check_metric_gains(metrics: Sequence[Metric], largest: int) -> None:
    """Raise InvalidInput if one of `metrics` cannot be computed with gains up to `largest`."""
    for metric in metrics:
        if metric.compute is None:
            trec_eval.check_trec_gains(trec_eval.parse_trec_measure(metric.name), largest)


def compute_metrics(metrics: Sequence[Metric], run: RunMatrix, qrels: Qrels) -> Values:
    """Compute metrics for each query.

    Parameters
    ----------
    metrics : sequence of Metric
    run : RunMatrix
    qrels : Qrels

    Returns
    -------
    (m, q) float64
    """
    trec_rows = [row for row, metric in enumerate(metrics) if metric.compute is None]
    trec_measures = [
        trec_eval.with_level(trec_eval.parse_trec_measure(metrics[row].name), qrels.level)
        for row in trec_rows
    ]
    values = np.empty((len(metrics), len(run.positions)))
    for queries, block in judged_blocks(run, qrels):
        for row, metric in enumerate(metrics):
            if metric.compute is not None:
                values[row, queries] = metric.compute(block)
        values[trec_rows, queries] = trec_eval.compute_trec(
            trec_measures, run.positions[queries], qrels.positions[queries], qrels.gains[queries]
        )
    return values
