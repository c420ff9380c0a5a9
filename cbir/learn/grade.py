"""Grade of an image and the graded images next to it."""

from pydantic import BaseModel, Field

from cbir.search import Links
from cbir.search import example_values as example


class GradedNeighbour(BaseModel):
    """A graded image adjacent in the list."""

    image_id: str = Field(description="Id of the image.", examples=[example.OTHER_IMAGE_ID])
    grade: float = Field(description="Grade by a clinician.", examples=[2.0])
    score: float = Field(description="Score of the ranker, by which the list is ordered.", examples=[0.48])
    links: Links = Field(description="Addresses of the image.")


class Grade(BaseModel):
    """Grade of an image by its position among the collection's graded images."""

    grade: float = Field(description="Grade of the image, a decimal number.", examples=[2.3])
    low: float = Field(
        description="Lower end of the interval that covers the fraction `coverage` of clinicians' grades.",
        examples=[1.6],
    )
    high: float = Field(description="Upper end of that interval.", examples=[3.1])
    coverage: float = Field(description="Fraction of grades in the interval, from 0 to 1.", examples=[0.9])
    score: float = Field(description="Score of the ranker, by which the list is ordered.", examples=[0.52])
    grade_column: str = Field(description="Label that holds the grades.", examples=["grade"])
    ranker: str = Field(description="Ranker that orders images by severity.", examples=["ridge"])
    graded: int = Field(description="Number of graded images in the list.", examples=[2779])
    lighter: GradedNeighbour | None = Field(
        description="The graded image next below; null at the lower end of the list."
    )
    severer: GradedNeighbour | None = Field(
        description="The graded image next above; null at the upper end of the list."
    )
