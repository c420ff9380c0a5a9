"""Messages of cards: what people read of an image at a glance. The HTTP client imports them."""

from pydantic import BaseModel, Field


class SliceOfSeries(BaseModel):
    """Place of an image in its series."""

    number: int = Field(description="Position among the images of the series, from 1.", examples=[13])
    count: int = Field(description="Number of images of the series in the collection.", examples=[24])
    position_mm: float | None = Field(
        description="Position along the normal of its stack, in mm of the patient; null if unknown.",
        examples=[-31.5],
    )
    stack: int = Field(
        description="Number of the parallel slices of one pass that it belongs to, from 1: positions of one stack "
        "follow each other.",
        examples=[1],
    )


def _label(meaning: str, value: str) -> str | None:
    description = f"{meaning}; null if no label says so."
    return Field(default=None, description=description, examples=[value])


class Card(BaseModel):
    """Facts of an image on its card, from the labels that the setting `card_labels` names."""

    finding: str | None = _label("Finding or diagnosis", "Meningioma")
    modality: str | None = _label("Modality", "MR")
    body_part: str | None = _label("Body part", "head")
    age: str | None = _label("Age of the patient in years", "54")
    sex: str | None = _label("Sex of the patient", "F")
    year: str | None = _label("Year of the study", "2021")
    series_description: str | None = _label("Description of the series", "T1 post contrast")
    slice: SliceOfSeries | None = Field(
        default=None, description="Place in the series; null for an image that is of none, or alone in it."
    )
    patient_images: int | None = Field(
        default=None,
        description="Number of further images of the patient in the collection; null if the patient is unknown.",
        examples=[7],
    )
