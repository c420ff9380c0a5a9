"""Acquisition strategies by name. A new one is a file and a line here."""

from cbir.active.strategies.balanced import Balanced
from cbir.active.strategies.core_set import CoreSet
from cbir.active.strategies.disagreement import Disagreement
from cbir.active.strategies.random_images import Random
from cbir.active.strategies.strategy_base import ImageStrategy, Strategy
from cbir.active.strategies.variance import Variance
from cbir.errors import InvalidInput

__all__ = ["ImageStrategy", "Strategy", "names", "strategy"]

MEMBERS: tuple[type[Strategy], ...] = (Variance, Random, CoreSet, Disagreement, Balanced)


def names() -> tuple[str, ...]:
    """What `strategy` knows."""
    return tuple(member.name for member in MEMBERS)


def strategy(name: str) -> Strategy:
    """A strategy by name; raises InvalidInput, which lists the names, for another."""
    for member in MEMBERS:
        if member.name == name:
            return member()
    raise InvalidInput(f"there is no strategy {name!r}; there are: {', '.join(names())}")
