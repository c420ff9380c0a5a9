"""Messages about pictures and pixel values: what a viewer needs to show and to measure them.

The HTTP client imports them: nothing here loads images or vectors.
"""

from typing import Literal

from pydantic import BaseModel, Field


class WindowFacts(BaseModel):
    """Window of grey values."""

    center: float = Field(description="Center, in values.", examples=[40.0])
    width: float = Field(description="Width, in values.", examples=[400.0])


class SpacingFacts(BaseModel):
    """Distances of neighbouring pixels of the frame in its file."""

    rows: float = Field(description="Millimetres between rows.", examples=[0.7])
    columns: float = Field(description="Millimetres between columns.", examples=[0.7])


class PlaceFacts(BaseModel):
    """Place of a frame in its series, as its header says it (PS3.3, C.7.6.2)."""

    position: list[float] | None = Field(
        description="Of the first pixel in mm: left, posterior, superior; null if unknown.",
        examples=[[-120.0, -110.5, 34.0]],
    )
    orientation: list[float] | None = Field(
        description="Direction cosines of a row and of a column; null if unknown.",
        examples=[[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]],
    )
    instance: int | None = Field(description="Instance number; null if unknown.", examples=[7])


class PictureFacts(BaseModel):
    """Facts about an image beside its picture."""

    image_width: int = Field(description="Width of the frame in its file, in pixels.", examples=[512])
    image_height: int = Field(description="Height of the frame in its file, in pixels.", examples=[512])
    frame: int | None = Field(
        default=None, description="Number of the frame, from 1; null for the only one.", examples=[None]
    )
    frames: int = Field(description="Number of frames of the file.", examples=[1])
    window: WindowFacts | None = Field(
        description="Window that the picture is in, or that the file begins with; null for colours, and for pictures "
        "without one."
    )
    least: float | None = Field(description="Least value of the frame; null without one.", examples=[-1024.0])
    greatest: float | None = Field(
        description="Greatest value of the frame; null without one.", examples=[3071.0]
    )
    spacing: SpacingFacts | None = Field(description="Size of the frame's pixels; null if unknown.")
    modality: str = Field(description="DICOM modality; empty if unknown.", examples=["CT"])


class PixelFacts(PictureFacts):
    """Facts about pixel values and their image."""

    type: Literal["uint8", "int16", "uint16", "rgb8"] = Field(
        description="Type of the numbers, little-endian, rows from the top; rgb8 for three bytes a pixel.",
        examples=["int16"],
    )
    width: int = Field(description="Numbers of a row.", examples=[512])
    height: int = Field(description="Number of rows.", examples=[512])
    slope: float = Field(description="A value is slope * number + intercept.", examples=[1.0])
    intercept: float = Field(description="See `slope`.", examples=[-1024.0])
    unit: str = Field(description="HU, or empty for an unknown unit.", examples=["HU"])
    inverted: bool = Field(description="Whether low values are white (MONOCHROME1).", examples=[False])
    linear: bool = Field(
        description="Whether `window` shows them as the rendered picture; false where that is by a table or curve.",
        examples=[True],
    )
    exact: bool = Field(
        default=False,
        description="Whether windows go from center - width / 2 to center + width / 2, as for NIfTI; else they are "
        "those of DICOM (LINEAR, PS3.3, C.11.2.1.2), which end 1 earlier.",
        examples=[False],
    )
    photometric: str = Field(description="MONOCHROME1, MONOCHROME2 or RGB.", examples=["MONOCHROME2"])
    region: list[int] = Field(
        description="Part of the frame that they show, as x, y, width and height in its pixels. It has more pixels "
        "than there are numbers where it was reduced.",
        examples=[[0, 0, 512, 512]],
    )
    place: PlaceFacts | None = Field(description="Place in the series; null if unknown.")


class EncodedPicture(BaseModel):
    """Rendered picture of a query."""

    media_type: str = Field(default="image/png", description="Type of the file.", examples=["image/png"])
    data: str = Field(description="The file, in base64.", examples=["iVBORw0KGgo="])
    facts: PictureFacts = Field(description="What is known of it.")


class EncodedPixels(BaseModel):
    """Pixel values of a query."""

    data: str = Field(description="The numbers, in base64.", examples=["AAABAAIA"])
    facts: PixelFacts = Field(description="What they are.")
