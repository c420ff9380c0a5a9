"""Grade of an image and the graded images next to it."""

from pydantic import BaseModel

from cbir.search import Links


class GradedNeighbour(BaseModel):
    """A graded image next to another one in the list. grade: its own, a clinician's."""

    image_id: str
    grade: float
    score: float
    links: Links


class Grade(BaseModel):
    """Where an image stands among a collection's graded ones.

    grade: decimal; low, high: the interval that holds the share `coverage` of clinicians' grades. lighter, severer:
    the graded images next below and above it; null at an end of the list. graded: images in the list.
    """

    grade: float
    low: float
    high: float
    coverage: float
    score: float
    grade_column: str
    ranker: str
    graded: int
    lighter: GradedNeighbour | None
    severer: GradedNeighbour | None
