"""Metrics by name: those of ir-measures (https://ir-measur.es), and metrics of image retrieval that it lacks."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import ir_measures
import numpy as np
from ir_measures.measures.base import MeanAgg
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation import rank_metrics
from cbir.evaluation.qrels import JudgedBlock, Qrels, RunMatrix, judged_blocks
from cbir.evaluation.rank_metrics import capped_precision, interpolated_precision

__all__ = ["Metric", "check_metric_gains", "compute_metrics", "parse_metrics"]

# These compare judged irrelevant images with unjudged ones. Labels leave hardly any unjudged, and qrels files list
# relevant images only.
NEED_JUDGED_IRRELEVANT = ("Bpref", "infAP", "Judged")

GDEVAL_GAINS = 4  # of the TREC web track, for which gdeval was written


def parse_trec_measure(text: str) -> ir_measures.Measure:
    """Return the measure called `text`; raise InvalidInput if it is unknown or does not apply."""
    try:
        measure = ir_measures.parse_measure(text)
        measure.validate_params()  # type: ignore[no-untyped-call]
    except (NameError, ValueError, AssertionError, SyntaxError, TypeError) as error:
        raise InvalidInput(f"unknown measure '{text}': {error}") from None
    if measure.NAME in NEED_JUDGED_IRRELEVANT or measure.params.get("judged_only"):
        raise InvalidInput(
            f"the measure '{text}' needs images judged irrelevant, but judgements by labels are complete; "
            "use AP or P@10"
        )
    if measure.params.get("cutoff", 1) < 1:
        raise InvalidInput(f"the cut-off of the measure '{text}' must be at least 1")
    if not isinstance(measure.aggregator(), MeanAgg):
        raise InvalidInput(f"the measure '{text}' is a count, which has no mean over queries")
    if not any(
        provider.is_available() and provider.supports(measure)
        for provider in ir_measures.DefaultPipeline.providers
    ):
        raise InvalidInput(f"no installed package computes the measure '{text}'")
    return measure


def check_trec_gains(measure: ir_measures.Measure, largest: int) -> None:
    """Raise InvalidInput if `measure` cannot be computed with gains up to `largest`."""
    by_gdeval = measure.NAME == "ERR" or measure.params.get("dcg") == "exp-log2"
    if by_gdeval and largest > GDEVAL_GAINS:
        raise InvalidInput(
            f"the measure '{measure}' takes gains up to {GDEVAL_GAINS}, but these grades give gains up to "
            f"{largest}; use nDCG@10"
        )


def with_level(measure: ir_measures.Measure, level: int) -> ir_measures.Measure:
    """Return `measure` with gains of at least `level` as relevant, unless it has a level itself."""
    if level > 1 and "rel" in measure.SUPPORTED_PARAMS and "rel" not in measure.params:
        return cast(ir_measures.Measure, measure(rel=level))
    return measure


def compute_trec(
    measures: Sequence[ir_measures.Measure],
    answers: NDArray[np.int32],
    positions: Sequence[NDArray[np.int64]],
    gains: Sequence[NDArray[np.int64]],
) -> NDArray[np.float64]:
    """Compute measures for each query.

    Parameters
    ----------
    measures : sequence of ir_measures.Measure
    answers : (q, k) int32
        Positions of the answers, best first, -1 after the last.
    positions, gains : sequence of (n,) int64
        Relevant images of each query.

    Returns
    -------
    (m, q) float64
    """
    if not measures:
        return np.empty((0, len(answers)))
    falling = np.arange(answers.shape[1], 0, -1, dtype=np.float64).tolist()
    run, qrels = {}, {}
    for query, row in enumerate(answers):
        names = row[row >= 0].tolist()
        run[str(query)] = dict(zip(map(str, names), falling, strict=False))
        qrels[str(query)] = dict(zip(map(str, positions[query].tolist()), gains[query].tolist(), strict=True))
    values: dict[ir_measures.Measure, NDArray[np.float64]] = defaultdict(lambda: np.zeros(len(answers)))
    for metric in ir_measures.iter_calc(measures, qrels, run):
        values[metric.measure][int(metric.query_id)] = metric.value
    return np.array([values[measure] for measure in measures])


Values = NDArray[np.float64]

WITH_CUTOFF: dict[str, Callable[[JudgedBlock, int], Values]] = {
    "mAP": rank_metrics.precision_of_retrieved,
    "mMV": rank_metrics.majority_vote,
    "ACC": rank_metrics.accuracy,
    "kNNError": rank_metrics.knn_error,
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
        return Metric(name, rank_metrics.nmrr)
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
    cutoff = parse_trec_measure(name).params.get("cutoff")
    return Metric(name, None, cutoff or 0)


def check_metric_gains(metrics: Sequence[Metric], largest: int) -> None:
    """Raise InvalidInput if one of `metrics` cannot be computed with gains up to `largest`."""
    for metric in metrics:
        if metric.compute is None:
            check_trec_gains(parse_trec_measure(metric.name), largest)


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
    trec_measures = [with_level(parse_trec_measure(metrics[row].name), qrels.level) for row in trec_rows]
    values = np.empty((len(metrics), len(run.positions)))
    for queries, block in judged_blocks(run, qrels):
        for row, metric in enumerate(metrics):
            if metric.compute is not None:
                values[row, queries] = metric.compute(block)
        values[trec_rows, queries] = compute_trec(
            trec_measures, run.positions[queries], qrels.positions[queries], qrels.gains[queries]
        )
    return values
