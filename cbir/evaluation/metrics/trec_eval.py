"""Metrics by the names of ir-measures (https://ir-measur.es), computed by its providers."""

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import ir_measures
import numpy as np
from ir_measures.measures.base import MeanAgg
from numpy.typing import NDArray

from cbir.errors import InvalidInput

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
