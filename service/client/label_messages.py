"""Responses about labels: which keys and values there are, and how many images have them."""

from pydantic import BaseModel, Field


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
    minimum: float | None = Field(
        description="Least of the values that are numbers; null if none is.", examples=[None]
    )
    maximum: float | None = Field(
        description="Greatest of the values that are numbers; null if none is.", examples=[None]
    )
    items: list[LabelValueCount] = Field(
        description="Values of this page, the most frequent first, equally frequent ones in the order of their "
        "characters."
    )
    next: str | None = Field(
        description="Parameter `cursor` of the following page; null at the end.", examples=[None]
    )
