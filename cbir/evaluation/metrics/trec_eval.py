"""Measures by the names of ir-measures (https://ir-measur.es), computed by its providers."""

from collections import defaultdict
from collections.abc import Sequence

import ir_measures
import numpy as np
from ir_measures.measures.base import MeanAgg
from numpy.typing import NDArray

from cbir.errors import InvalidInput

# They compare judged irrelevant images with unjudged ones; judgements by labels leave hardly any unjudged, and
# the files list the relevant ones alone.
NEED_JUDGED_IRRELEVANT = ("Bpref", "infAP", "Judged")
GDEVAL_GAINS = 4  # of the TREC web track, for which gdeval was written


def parse_trec_measure(text: str) -> ir_measures.Measure:
    """The measure of that name; raises InvalidInput, which says what is wrong with it."""
    try:
        measure = ir_measures.parse_measure(text)
        measure.validate_params()
    except (NameError, ValueError, AssertionError, SyntaxError, TypeError) as error:
        raise InvalidInput(f"the measure '{text}' is not known: {error}") from None
    if measure.NAME in NEED_JUDGED_IRRELEVANT or measure.params.get("judged_only"):
        raise InvalidInput(
            f"the measure '{text}' needs images that were judged irrelevant; judgements by labels are complete, "
            "take AP or P@10 without it"
        )
    if measure.params.get("cutoff", 1) < 1:
        raise InvalidInput(f"the measure '{text}' looks at no answers; its cut-off must be 1 at least")
    if not isinstance(measure.aggregator(), MeanAgg):
        raise InvalidInput(f"the measure '{text}' is a count, which has no mean over queries")
    if not any(
        provider.is_available() and provider.supports(measure)
        for provider in ir_measures.DefaultPipeline.providers
    ):
        raise InvalidInput(f"the measure '{text}' cannot be computed with what is installed")
    return measure


def check_trec_gains(measure: ir_measures.Measure, largest: int) -> None:
    """Raises InvalidInput for a measure that cannot be computed with gains up to `largest`."""
    by_gdeval = measure.NAME == "ERR" or measure.params.get("dcg") == "exp-log2"
    if by_gdeval and largest > GDEVAL_GAINS:
        raise InvalidInput(
            f"the measure '{measure}' knows gains up to {GDEVAL_GAINS}, and these grades give gains up to "
            f"{largest}; take nDCG@10"
        )


def with_level(measure: ir_measures.Measure, level: int) -> ir_measures.Measure:
    """The measure with answers of a gain of at least `level` as relevant, unless it says a level itself."""
    if level > 1 and "rel" in measure.SUPPORTED_PARAMS and "rel" not in measure.params:
        return measure(rel=level)
    return measure


def compute_trec(
    measures: Sequence[ir_measures.Measure],
    answers: NDArray[np.int32],
    places: Sequence[NDArray[np.int64]],
    gains: Sequence[NDArray[np.int64]],
) -> NDArray[np.float64]:
    """Values (m, q) of the measures for q queries.

    answers: (q, k) places of the answers, best first, -1 behind the last. places, gains: of the relevant images.
    """
    if not measures:
        return np.empty((0, len(answers)))
    falling = np.arange(answers.shape[1], 0, -1, dtype=np.float64).tolist()
    run, qrels = {}, {}
    for query, row in enumerate(answers):
        names = row[row >= 0].tolist()
        run[str(query)] = dict(zip(map(str, names), falling, strict=False))
        qrels[str(query)] = dict(zip(map(str, places[query].tolist()), gains[query].tolist(), strict=True))
    values: dict[ir_measures.Measure, NDArray[np.float64]] = defaultdict(lambda: np.zeros(len(answers)))
    for metric in ir_measures.iter_calc(measures, qrels, run):
        values[metric.measure][int(metric.query_id)] = metric.value
    return np.array([values[measure] for measure in measures])
