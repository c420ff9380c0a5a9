"""Unfitted rankers, from the options of a command or a study."""

from typing import Any

from cbir.descriptors.encoder_descriptor import encoder_descriptor_name
from cbir.learn.severity.bayesian_ranker import BayesianRanker
from cbir.learn.severity.encoder_choice import OF_PICTURES
from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.value_ranker import ValueRanker


def new_ranker(encoder: str | None, options: dict[str, Any]) -> SampledRanker:
    """Return a ranker of the values of `encoder`, or of pictures without one; `options` that are None are defaults.

    Raises InvalidInput if there is no such encoder or an option is out of range.
    """
    options_set = {name: value for name, value in options.items() if value is not None}
    if encoder is None:
        return BayesianRanker(**options_set)
    of_values = {name: value for name, value in options_set.items() if name not in OF_PICTURES}
    return ValueRanker(descriptor=encoder_descriptor_name(encoder), **of_values)
