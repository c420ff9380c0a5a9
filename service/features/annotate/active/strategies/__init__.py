"""Acquisition strategies by name. A new one is a file and a line here."""

from cbir.errors import InvalidInput
from service.features.annotate.active.strategies.balanced import Balanced
from service.features.annotate.active.strategies.core_set import CoreSet, EncoderCoreSet
from service.features.annotate.active.strategies.disagreement import Disagreement
from service.features.annotate.active.strategies.new_images import NewImages
from service.features.annotate.active.strategies.random_images import Random
from service.features.annotate.active.strategies.strategy_base import ImageStrategy, Strategy
from service.features.annotate.active.strategies.stratified import Stratified
from service.features.annotate.active.strategies.variance import Variance

__all__ = ["ImageStrategy", "Strategy", "check_strategy", "names", "strategy"]

MEMBERS: tuple[type[Strategy], ...] = (
    Variance,
    Random,
    CoreSet,
    EncoderCoreSet,
    Disagreement,
    Balanced,
    Stratified,
    NewImages,
)

DEFAULT = NewImages.name  # the best of bench/results/active.md


def names() -> tuple[str, ...]:
    """Return the names of all strategies."""
    return tuple(member.name for member in MEMBERS)


def strategy(name: str) -> Strategy:
    """Return the strategy called `name`; raise InvalidInput for an unknown name."""
    for member in MEMBERS:
        if member.name == name:
            return member()
    raise InvalidInput(f"unknown strategy {name!r}; available: {', '.join(names())}")


def check_strategy(name: str, encoder: str | None) -> None:
    """Raise InvalidInput if no strategy is called `name`, or it needs an `encoder` and that is None."""
    if strategy(name).needs_encoder and encoder is None:
        raise InvalidInput(
            f"the strategy {name} needs an encoder to learn from; give --encoder, or use core-set"
        )
