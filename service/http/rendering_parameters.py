"""Parameters that choose a part of an image: frame, region, window."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, FiniteFloat

from cbir.images import Region
from service.http.request_params import Parameters


def _split_numbers(value: Any) -> Any:
    """Split numbers with commas, or in several fields of the same name, which generated clients send."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
    return value.split(",") if isinstance(value, str) else value


Numbers = BeforeValidator(_split_numbers)


WindowParameter = Annotated[
    tuple[FiniteFloat, Annotated[FiniteFloat, Field(gt=0)]] | None,
    Numbers,
    Field(
        description="Window of a grey DICOM frame, as center,width in its values; by default that of the file.",
        examples=[[40.0, 400.0]],
    ),
]


class Rendering(Parameters):
    """Parts of an uploaded image."""

    frame: int | None = Field(
        default=None,
        ge=1,
        description="Frame of the file, from 1; the first one by default.",
        examples=[1],
    )
    region: Annotated[Region | None, Numbers] = Field(
        default=None,
        description="Part of the frame, as x,y,width,height in pixels from its upper left corner; by default all "
        "of it.",
        examples=[[40, 60, 120, 80]],
    )
    window: WindowParameter = None
