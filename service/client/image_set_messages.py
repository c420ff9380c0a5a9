"""Requests and responses about many images at once."""

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
