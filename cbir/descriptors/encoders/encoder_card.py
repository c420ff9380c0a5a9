"""Cards of encoders: weights, input and outputs of a pretrained network, and where it comes from."""

import hashlib
import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from cbir.images.volume import AIR, DENSEST, VolumeGrid

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
GREATEST_SIDE = 2048  # pixels
GREATEST_DIMENSIONS = 16_384

Text = Annotated[str, Field(max_length=4000)]
Side = Annotated[int, Field(ge=8, le=GREATEST_SIDE)]
Dimensions = Annotated[int, Field(ge=1, le=GREATEST_DIMENSIONS)]
Positive = Annotated[FiniteFloat, Field(gt=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Channels = Annotated[tuple[FiniteFloat, ...], Field(min_length=1, max_length=3)]


class EncoderInput(BaseModel):
    """Input of a network: (pixels / scale - mean) / deviation, (1, channels, height, width).

    fit: "squash" ignores the aspect ratio, "letterbox" pads with black, "crop" keeps the centre.
    interpolation: "area" by OpenCV (linear where it enlarges), "linear" and "cubic" by Pillow, smoothed where they
    shrink, as training pipelines of torchvision and transformers have it.
    channels: "colour" repeats grey images, "grey" reduces coloured ones.
    mean, deviation: a number per channel of the network.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: Side
    height: Side
    fit: Literal["squash", "letterbox", "crop"] = "squash"
    interpolation: Literal["area", "linear", "cubic"] = "area"
    channels: Literal["colour", "grey"] = "colour"
    scale: Positive = 255.0
    mean: Channels
    deviation: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=3)]

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if not len(self.mean) == len(self.deviation) != 2:
            raise ValueError("mean and deviation need as many numbers as the network has channels, 1 or 3")
        if self.channels == "colour" and len(self.mean) != 3:
            raise ValueError("a network for colour has three channels")
        return self


class VolumeInput(BaseModel):
    """Input of a network for CT volumes: (HU - low) / (high - low) from 0 to 1, (1, 1, depth, width, height).

    width, height, depth: voxels to the patient's right, anterior and superior. spacing: of their centres in mm.
    low, high: Hounsfield units that become 0 and 1; those beyond are limited.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: Side
    height: Side
    depth: Side
    spacing: tuple[Positive, Positive, Positive]
    low: Annotated[FiniteFloat, Field(ge=AIR)] = AIR
    high: Annotated[FiniteFloat, Field(le=DENSEST)] = DENSEST

    @property
    def grid(self) -> VolumeGrid:
        """Voxels that a series is resampled to."""
        return VolumeGrid((self.width, self.height, self.depth), self.spacing)


class EncoderOutput(BaseModel):
    """Values taken from one output of a network.

    pooling: "grid" averages grid x grid overlapping windows of a map, each `window` of its sides long, "global" the
    whole map; "max" takes the maximum of each channel, "none" an output that is a vector as it is.
    dimensions: number of values after pooling. weight: factor of the values, against those of the other outputs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tensor: Annotated[str, Field(min_length=1, max_length=500)]
    pooling: Literal["grid", "global", "max", "none"]
    grid: Annotated[int, Field(ge=1, le=8)] = 3
    window: Annotated[float, Field(gt=0, le=1)] = 0.5
    dimensions: Dimensions
    weight: Annotated[FiniteFloat, Field(gt=0, le=1000)] = 1.0


class TextCard(BaseModel):
    """Text tower of an image-text model: tokens to a vector that is compared with those of images.

    sha256: of the ONNX network. tokenizer_sha256: of the tokenizer, JSON of the library tokenizers.
    length: number of tokens that a text is cut or padded to.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: Sha256
    tokenizer_sha256: Sha256
    length: Annotated[int, Field(ge=2, le=8192)]


class EncoderCard(BaseModel):
    """Card of an encoder.

    source: package and version, file, or hub id of the weights. sha256: of the weights' file.
    description: data it was trained on, and weaknesses. text: of an image-text model, where its text tower is stored.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    title: Text
    description: Text = ""
    source: Text
    sha256: Sha256
    licence: Text = "unknown"
    input: EncoderInput | VolumeInput
    outputs: Annotated[tuple[EncoderOutput, ...], Field(min_length=1, max_length=16)]
    text: TextCard | None = None

    @model_validator(mode="after")
    def _is_not_too_large(self) -> Self:
        if self.dimensions > GREATEST_DIMENSIONS:
            raise ValueError(f"{self.dimensions} values per image are more than {GREATEST_DIMENSIONS}")
        return self

    @property
    def dimensions(self) -> int:
        """Number of values of a vector."""
        return sum(output.dimensions for output in self.outputs)

    @property
    def hash(self) -> str:
        """Hash of everything that determines the vectors, 16 hexadecimal digits."""
        is_weighted = any(output.weight != 1.0 for output in self.outputs)
        # Cards without weights have the hash that they had before there were any.
        absent = None if is_weighted else {"outputs": {"__all__": {"weight"}}}
        text = self.model_dump_json(include={"sha256", "input", "outputs"}, exclude=absent)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
