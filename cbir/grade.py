"""Grade of an image and the graded images next to it."""

from pydantic import BaseModel

from cbir.search import Links


class GradedNeighbour(BaseModel):
    """A graded image adjacent in the list. grade: by a clinician."""

    image_id: str
    grade: float
    score: float
    links: Links


class Grade(BaseModel):
    """Grade of an image by its position among the collection's graded images.

    grade: decimal. low, high: interval that covers the fraction `coverage` of clinicians' grades. lighter, severer:
    the graded images next below and above; null at an end of the list. graded: number of images in the list.
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
