"""Messages about quarantined images."""

from pydantic import BaseModel, Field

from cbir.search import example_values as example


class QuarantinedItem(BaseModel):
    """An image that the intake check keeps out."""

    image_id: str = Field(description="Id that it gets when it is released.", examples=[example.IMAGE_ID])
    findings: list[str] = Field(
        description='Why: "text" (in the pixels), "blank", "damaged", "inverted", "modality" (looks like another), '
        '"unlike" (the collection).',
        examples=[["text"]],
    )
    width: int = Field(description="Width in pixels.", examples=[512])
    height: int = Field(description="Height in pixels.", examples=[512])
    at: str = Field(description="Time when it came, UTC.", examples=["2026-11-23T08:00:00+00:00"])


class QuarantinePage(BaseModel):
    """A page of the quarantine."""

    items: list[QuarantinedItem] = Field(description="Images by id.")
    next: str | None = Field(description="`cursor` of the next page; null on the last.", examples=[None])
