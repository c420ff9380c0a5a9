"""Folder of encoders on disk: `NAME-HASH.onnx`, the network, and `NAME-HASH.json`, its card and hash.

An image-text model has its text tower beside it: `NAME-HASH.text.onnx` and `NAME-HASH.tokenizer`.

The card is written last and makes the encoder exist. Both are replaced as a whole, so that a reader needs no lock.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from cbir.descriptors.networks.model_card import LARGEST_CARD, LARGEST_NETWORK, read_verified
from cbir.errors import InvalidInput
from cbir.images.volume import AIR, DENSEST, VolumeGrid
from cbir.system.files import PUBLIC_FILE, wait_lock, write_bytes
from cbir.system.ownership import make_folder, open_or_create

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
GREATEST_SIDE = 2048  # pixels
GREATEST_DIMENSIONS = 16_384

Text = Annotated[str, Field(max_length=4000)]
Side = Annotated[int, Field(ge=8, le=GREATEST_SIDE)]
Dimensions = Annotated[int, Field(ge=1, le=GREATEST_DIMENSIONS)]
Positive = Annotated[FiniteFloat, Field(gt=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Channels = Annotated[tuple[FiniteFloat, ...], Field(min_length=1, max_length=3)]

LARGEST_TOKENIZER = 1 << 27


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


class TextFiles(NamedTuple):
    """Text tower: an ONNX network, and the JSON of its tokenizer."""

    network: bytes
    tokenizer: bytes


def network_path(folder: Path, card: EncoderCard) -> Path:
    """Return the path of the network in the folder of encoders."""
    return folder / f"{card.name}-{card.hash}.onnx"


def stored_names(folder: Path) -> list[str]:
    """Return the names of the stored encoders, sorted; none if the folder cannot be read."""
    try:
        return sorted({path.stem.rpartition("-")[0] for path in folder.glob("*-*.json")})
    except OSError:  # often a home folder of another user; the built-in encoders need none
        return []


def unreadable_advice(folder: Path) -> str:
    """Return the end of a sentence about a missing encoder, if the folder cannot be read; else ""."""
    try:
        os.scandir(folder).close()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f": {folder} cannot be read ({error.strerror}; setting encoder_folder);"
    return ""


def is_stored(folder: Path, card: EncoderCard) -> bool:
    """Return whether the folder has the network of a card, and can be read."""
    try:
        return network_path(folder, card).is_file()
    except OSError:
        return False


def read_card(folder: Path, name: str) -> EncoderCard:
    """Return the card of a stored encoder; raise InvalidInput if it is damaged."""
    for path in sorted(folder.glob(f"{name}-*.json")):
        if path.stem.rpartition("-")[0] == name:
            card, _ = _read(path)
            if card is None or card.name != name or network_path(folder, card).stem != path.stem:
                raise InvalidInput(f"{path} is damaged; remove it, then add the encoder {name} again")
            return card
    raise InvalidInput(f"there is no encoder {name} in {folder}")


def read_network(folder: Path, card: EncoderCard) -> bytes | None:
    """Return the stored ONNX network of a card, checked; None if there is none.

    Raises InvalidInput if it is not the network that was stored.
    """
    path = network_path(folder, card)
    stored, sha256 = _read(path.with_suffix(".json"))
    if not is_stored(folder, card) or stored is None:
        return None
    if stored.hash != card.hash:
        raise InvalidInput(f"{path} belongs to another card")
    return read_verified(path, sha256, LARGEST_NETWORK)


def read_text_files(folder: Path, card: EncoderCard) -> TextFiles:
    """Return the stored text tower of a card that has one, checked.

    Raises NotFound if a file is missing, InvalidInput if it is not the one that was stored.
    """
    assert card.text is not None
    network, tokenizer = text_paths(folder, card)
    return TextFiles(
        read_verified(network, card.text.sha256, LARGEST_NETWORK),
        read_verified(tokenizer, card.text.tokenizer_sha256, LARGEST_TOKENIZER),
    )


def text_paths(folder: Path, card: EncoderCard) -> tuple[Path, Path]:
    """Return the paths of the network and the tokenizer of a text tower."""
    name = f"{card.name}-{card.hash}"
    return folder / f"{name}.text.onnx", folder / f"{name}.tokenizer"


def write_network(folder: Path, card: EncoderCard, network: bytes, text: TextFiles | None = None) -> Path:
    """Store an ONNX network in a folder of encoders.

    Parameters
    ----------
    folder : Path
        The folder.
    card : EncoderCard
        Card of the network.
    network : bytes
        The ONNX file.
    text : TextFiles, optional
        Text tower that the card describes.

    Returns
    -------
    Path
        Path of the network.
    """
    path = network_path(folder, card)
    fields = card.model_dump(mode="json", exclude_none=True)  # None: a field that older versions do not know
    content = {"card": fields, "network_sha256": hashlib.sha256(network).hexdigest()}
    suffix = f".{os.getpid()}.partial"
    for text_path, file in zip(text_paths(folder, card), text or (), strict=False):
        write_bytes(text_path, file, permissions=PUBLIC_FILE, suffix=suffix)
    write_bytes(path, network, permissions=PUBLIC_FILE, suffix=suffix)
    write_bytes(
        path.with_suffix(".json"),
        json.dumps(content, indent=1).encode(),
        permissions=PUBLIC_FILE,
        suffix=suffix,
    )
    return path


def load_or_make(folder: Path, card: EncoderCard, make: Callable[[], bytes]) -> bytes:
    """Return the stored network of a card; make and store it if there is none or it is damaged.

    Parameters
    ----------
    folder : Path
        Folder of encoders; created if missing.
    card : EncoderCard
        Card of the encoder.
    make : callable
        Returns the ONNX network. Only one process at a time calls it.

    Returns
    -------
    bytes
        The network, which is only not stored where the folder cannot be written.
    """
    network = _intact(folder, card)
    if network is not None:
        return network
    try:
        with hold_folder(folder):
            network = _intact(folder, card)
            if network is None:
                network = make()
                write_network(folder, card, network)
            return network
    except OSError:
        return network or make()


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, which is created if missing, against other processes that write to it."""
    make_folder(folder, 0o777, parents=True, exist_ok=True)
    with open(open_or_create(folder / ".lock", os.O_WRONLY, 0o666), "wb") as file:
        wait_lock(file.fileno())
        yield


def _intact(folder: Path, card: EncoderCard) -> bytes | None:
    try:
        return read_network(folder, card)
    except InvalidInput:
        return None


def _read(path: Path) -> tuple[EncoderCard | None, str]:
    """Return the card and the network's hash in a file, None without a file that holds them."""
    try:
        if path.stat().st_size > LARGEST_CARD:
            return None, ""
        content = json.loads(path.read_bytes())
        return EncoderCard.model_validate(content["card"]), str(content["network_sha256"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None, ""
