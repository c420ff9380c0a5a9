"""Messages about the map of a collection."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cbir.search import ImageId
from cbir.search import example_values as example

MAX_PLACES = 1000  # images of a request for places

State = Literal["ready", "computing", "failed", "unavailable"]


class CollectionMap(BaseModel):
    """Images of a collection in two dimensions, similar ones close together."""

    state: State = Field(
        description='"ready"; "computing" while there is none yet; "failed", see `reason`; "unavailable" if the '
        "service cannot compute maps.",
        examples=["ready"],
    )
    reason: str | None = Field(description='Why there is no map; null for "ready" and "computing".')
    job: str | None = Field(
        description="Name of the job that computes a map now: the first, or a newer one; null without one."
    )
    done: int = Field(description="Steps that the job has done.", examples=[0])
    total: int | None = Field(description="Steps of the job; null while it has not begun, and without one.")
    generation: int = Field(description="Generation of the collection that the map shows.", examples=[239])
    images: int = Field(description="Number of images that the caller may see.", examples=[13549])
    ids: list[str] = Field(
        description="Ids of the images on the map, in the order in which they were added; an evenly spread sample if "
        "there are more than `limit`. Images that resemble none on it are missing until it is computed again.",
        examples=[[example.IMAGE_ID]],
    )
    x: list[float] = Field(description="Their horizontal places, from -1 to 1.", examples=[[0.1284]])
    y: list[float] = Field(description="Their vertical places, from -1 to 1, upwards.", examples=[[-0.5312]])


class MapLabels(BaseModel):
    """Values of a label for the images of a map."""

    generation: int = Field(
        description="Generation of the collection; the images are those of a map of the same generation and limit.",
        examples=[239],
    )
    key: str = Field(description="Key of the label.", examples=["modality"])
    values: list[str] = Field(description="Its values, the most frequent first.", examples=[["CR", "CT"]])
    codes: list[int] = Field(
        description="Index in `values` for each image, in the order of the map; -1 for images without the label.",
        examples=[[0]],
    )


class MapPlaceRequest(BaseModel):
    """Images whose places on the map are requested."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[ImageId], Field(min_length=1, max_length=MAX_PLACES)] = Field(
        description=f"Ids of 1 to {MAX_PLACES} images; the results of a search in their order.",
        examples=[[example.IMAGE_ID, example.OTHER_IMAGE_ID]],
    )


class MapPlace(BaseModel):
    """Place of an image on the map."""

    image_id: str = Field(description="Id of the image.", examples=[example.IMAGE_ID])
    x: float = Field(description="Horizontal place, from -1 to 1.", examples=[0.1284])
    y: float = Field(description="Vertical place, from -1 to 1, upwards.", examples=[-0.5312])


class MapPoint(BaseModel):
    """A place on the map."""

    x: float = Field(description="Horizontal place, from -1 to 1.", examples=[0.1284])
    y: float = Field(description="Vertical place, from -1 to 1, upwards.", examples=[-0.5312])


class MapPlaces(BaseModel):
    """Places of images on the map."""

    items: list[MapPlace] = Field(
        description="Places in the order of the request; images that have none are left out."
    )
    query: MapPoint | None = Field(
        description="Place of an image that is not in the collection, if the first images of the request are those "
        "nearest to it; null if none of them has a place."
    )
