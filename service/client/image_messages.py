"""Requests and responses about many images: sets of them, studies and series, labels, vectors."""

from typing import Annotated

from pydantic import BaseModel, Field

from cbir.search import ImageId
from cbir.search import example_values as example
from service.client.messages import LabelChange

MAX_SET = 10_000  # images of a request
MAX_RECORDS = 1000  # of a response
ImageIds = Annotated[
    list[ImageId],
    Field(
        min_length=1,
        max_length=MAX_SET,
        description=f"Ids of 1 to {MAX_SET} images.",
        examples=[[example.IMAGE_ID]],
    ),
]


class ImageSet(BaseModel):
    """Images by their ids."""

    ids: ImageIds


class RecordRequest(BaseModel):
    """Images whose records are requested."""

    ids: Annotated[list[ImageId], Field(min_length=1, max_length=MAX_RECORDS)] = Field(
        description=f"Ids of 1 to {MAX_RECORDS} images.",
        examples=[[example.IMAGE_ID, example.OTHER_IMAGE_ID]],
    )


class SetLabelChange(LabelChange):
    """Change of the labels of several images (RFC 7396)."""

    ids: ImageIds


class LabelledCount(BaseModel):
    """Result of labelling images."""

    labelled: int = Field(description="Number of images that have the labels now.", examples=[2])


class DeletedImages(BaseModel):
    """Result of deleting images."""

    deleted: list[str] = Field(
        description="Ids of the images that were deleted; ids of no image are missing.",
        examples=[[example.IMAGE_ID, example.OTHER_IMAGE_ID]],
    )


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


class LabelFacet(BaseModel):
    """A label key."""

    key: str = Field(description="Key of the label.", examples=["modality"])
    images: int = Field(description="Number of images that have the label.", examples=[13549])
    values: int = Field(description="Number of its different values.", examples=[4])


class LabelFacets(BaseModel):
    """The label keys of a collection."""

    images: int = Field(
        description="Number of images that meet the conditions, with labels or without.", examples=[13549]
    )
    items: list[LabelFacet] = Field(description="Keys in alphabetical order.")


class LabelValueCount(BaseModel):
    """A value of a label."""

    value: str = Field(description="The value.", examples=["CT"])
    images: int = Field(description="Number of images that have it.", examples=[4533])


class LabelValuePage(BaseModel):
    """A page of the values of a label."""

    key: str = Field(description="Key of the label.", examples=["modality"])
    images: int = Field(description="Number of images that have the label.", examples=[13549])
    values: int = Field(description="Number of its different values, on all pages.", examples=[4])
    minimum: float | None = Field(description="Least of the values that are numbers; null if none is.")
    maximum: float | None = Field(description="Greatest of the values that are numbers; null if none is.")
    items: list[LabelValueCount] = Field(
        description="Values of this page, the most frequent first, equally frequent ones in the order of their "
        "characters."
    )
    next: str | None = Field(description="Parameter `cursor` of the following page; null at the end.")


class ImageVector(BaseModel):
    """Vector of an image."""

    image_id: str = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    values: list[float] = Field(
        description="Values in 32 bits, in the fewest digits that distinguish them.",
        examples=[[0.12, 0.0, 3.5]],
    )


class ImageVectors(BaseModel):
    """Vectors of images."""

    profile: str = Field(description="Name of the profile that computed them.", examples=["lite0-max"])
    profile_hash: str = Field(
        description="Its hash; vectors can be compared where it is equal.", examples=["3f1c9d0a"]
    )
    raw: bool = Field(
        description="True for the values of the descriptor, as `vector` of a search takes them; false for normalised "
        "ones, whose Euclidean distances are those of searches.",
        examples=[True],
    )
    dimensions: int = Field(description="Number of values of a vector.", examples=[3])
    items: list[ImageVector] = Field(description="The vectors, in the order of the ids in the request.")
