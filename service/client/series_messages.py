"""Responses with the studies and series of a collection."""

from pydantic import BaseModel, Field

from cbir.search import example_values as example


class DicomGroupInfo(BaseModel):
    """A study or a series."""

    study: str = Field(description="Study Instance UID.", examples=[example.STUDY_UID])
    series: str = Field(
        description="Series Instance UID; empty at the level study.", examples=[example.SERIES_UID]
    )
    images: int = Field(description="Number of its images that meet the conditions.", examples=[120])
    image_id: str = Field(
        description="Id of the middle one of them, in the order of their slices.",
        examples=[example.IMAGE_ID],
    )
    labels: dict[str, str] = Field(description="Labels of that image.", examples=[example.LABELS])


class DicomGroupPage(BaseModel):
    """A page of the studies or series of a collection."""

    items: list[DicomGroupInfo] = Field(description="Studies or series, the one that was begun last first.")
    next: str | None = Field(
        description="Send it as `cursor` to get the following page; null on the last one.", examples=["100"]
    )
