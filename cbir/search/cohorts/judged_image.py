"""Images of a cohort: proposed for judging, and judged."""

from typing import NamedTuple


class ProposedImage(NamedTuple):
    """Image to judge next.

    probability: that it is relevant, as estimated. drawn: it was drawn at random, and is not among the most probable.
    """

    image_id: str
    probability: float
    drawn: bool


class JudgedImage(NamedTuple):
    """Judged image. probability, drawn: as it was proposed; None for an image that the user has found otherwise."""

    image_id: str
    relevant: bool
    probability: float | None = None
    drawn: bool = False
