"""Encoders of the user: an ONNX network, checked, tried on images and stored with its card."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from cbir.descriptors import encoders
from cbir.descriptors.encoders import encoder_files
from cbir.descriptors.encoders.encoder_files import NAME, EncoderCard, EncoderInput
from cbir.descriptors.encoders.encoder_network import (
    EncoderNetwork,
    fit_image,
    fit_input,
    normalise_pixels,
    run_session,
)
from cbir.descriptors.encoders.onnx_messages import has_external_data
from cbir.descriptors.networks.model_card import LARGEST_CARD, LARGEST_FILE, open_onnx_session
from cbir.errors import InvalidInput, NotFound, UndescribableImage
from cbir.images import Image


def check_name(name: str, folder: Path) -> None:
    """Raise InvalidInput unless a new encoder in `folder` can have this name."""
    if not NAME.fullmatch(name):
        raise InvalidInput(f"an encoder's name has a-z, 0-9, '_', '.' and '-', 64 at most; not {name!r}")
    if name in encoders.names(folder):
        raise InvalidInput(
            f"there is an encoder {name} already; choose another name, for a network of a hub with --name"
        )


def check_values(network: EncoderNetwork, card: EncoderCard) -> None:
    """Raise InvalidInput unless a network gives values that can be stored for images of all kinds."""
    for title, image in trial_images().items():
        try:
            network.describe(fit_input(image, card))
        except UndescribableImage as error:
            raise InvalidInput(f"tried on a {title} image: {error}") from error


def store_new(
    card: EncoderCard, content: bytes, folder: Path, text: encoder_files.TextFiles | None = None
) -> Path:
    """Store a new encoder.

    Parameters
    ----------
    card : EncoderCard
        Its card.
    content : bytes
        The ONNX network.
    folder : Path
        Folder of encoders.
    text : TextFiles, optional
        Text tower that the card describes.

    Returns
    -------
    Path
        Path of the network.

    Raises
    ------
    InvalidInput
        If its name is taken.
    """
    with encoder_files.hold_folder(folder):
        check_name(card.name, folder)
        return encoder_files.write_network(folder, card, content, text)


def trial_images() -> dict[str, Image]:
    """Return images that a new network is tried on, by what they show."""
    noise = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    slope = np.linspace(0, 255, 96 * 128).astype(np.uint8).reshape(96, 128)
    uniform = {"black": np.zeros((96, 128), np.uint8), "white": np.full((96, 128), 255, np.uint8)}
    return {title: Image(pixels) for title, pixels in {"random": noise, "smooth": slope, **uniform}.items()}


Model = TypeVar("Model", bound=BaseModel)

FLOAT = "tensor(float)"

# Of ImageNet in torchvision and timm, which most networks were trained with
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class AddedEncoder(NamedTuple):
    """Card of a new encoder. assumed: fields that neither the user's card nor the network gives."""

    card: EncoderCard
    path: Path
    assumed: tuple[str, ...]


def add_encoder(name: str, model: Path, card: Path | None, folder: Path) -> AddedEncoder:
    """Check an ONNX network and store it as an encoder.

    Parameters
    ----------
    name : str
        New name.
    model : Path
        ONNX file with one image input.
    card : Path, optional
        JSON file with fields of `EncoderCard`; what it leaves out is taken from the network, or assumed.
    folder : Path
        Folder of encoders.

    Raises
    ------
    InvalidInput
        If the name is taken, or the network cannot be an encoder; nothing is stored then.
    """
    check_name(name, folder)
    fields = {} if card is None else _read_fields(card)
    content = _read_model(model)
    sha256 = hashlib.sha256(content).hexdigest()
    if fields.setdefault("sha256", sha256) != sha256:
        raise InvalidInput(f"{model} is not the file that {card} describes: its SHA-256 is {sha256}")
    try:
        complete, assumed = _try_network(open_onnx_session(content), {"name": name, **fields}, model)
    except InvalidInput as error:
        raise InvalidInput(f"{model} cannot be an encoder: {error}") from error
    if complete.name != name:
        raise InvalidInput(f"{card} describes the encoder {complete.name}, not {name}")
    return AddedEncoder(complete, store_new(complete, content, folder), assumed)


def _read_fields(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise NotFound(f"there is no card {path}")
    try:
        if path.stat().st_size > LARGEST_CARD:
            raise ValueError
        fields = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not JSON") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("input", {}), dict):
        raise InvalidInput(f"{path} is not the card of an encoder: see docs/encoders.md")
    return fields


def _read_model(path: Path) -> bytes:
    if not path.is_file():
        raise NotFound(f"there is no model {path}")
    if path.stat().st_size > LARGEST_FILE:
        raise InvalidInput(
            f"{path} is larger than {LARGEST_FILE >> 20} MiB, the most that an encoder can have"
        )
    content = path.read_bytes()
    try:
        external = has_external_data(content)
    except ValueError as error:
        raise InvalidInput(f"{path} is not an ONNX file") from error
    if external:
        raise InvalidInput(f"{path} keeps its weights in other files; save it as one file")
    return content


def _try_network(session: Any, fields: Mapping[str, Any], model: Path) -> tuple[EncoderCard, tuple[str, ...]]:
    """Return the complete card, and its assumed fields, after the network has described images."""
    shape = _complete_input(session, fields.get("input", {}))
    outputs = fields.get("outputs") or [{"tensor": _only_output(session)}]
    if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
        raise InvalidInput("the outputs of its card are not a list of outputs")
    tensors = [str(output.get("tensor")) for output in outputs]
    images = trial_images()
    first, second = (
        run_session(session, tensors, normalise_pixels(fit_image(images[title], shape), shape))
        for title in ("random", "smooth")
    )
    for tensor in tensors:
        _check_outputs(tensor, first[tensor], second[tensor])
    completed = [_complete_output(output, first[str(output.get("tensor"))].shape) for output in outputs]
    card_fields = {"title": fields["name"], "source": model.name, **fields}
    card = validated(EncoderCard, {**card_fields, "input": shape, "outputs": completed})
    check_values(EncoderNetwork(session, card), card)
    assumed = [field for field in ("licence",) if field not in fields]
    assumed += [f"input.{name}" for name in EncoderInput.model_fields
                if name not in ("width", "height") and name not in fields.get("input", {})]  # fmt: skip
    return card, tuple(assumed)


def _complete_input(session: Any, fields: Mapping[str, Any]) -> EncoderInput:
    """Check the network's input, and complete the card's fields of it."""
    tensors = session.get_inputs()
    if len(tensors) != 1:
        names = ", ".join(tensor.name for tensor in tensors) or "none"
        raise InvalidInput(f"it has {len(tensors)} inputs ({names}), and must have one, an image")
    name, sizes = tensors[0].name, tensors[0].shape
    if tensors[0].type != FLOAT:
        raise InvalidInput(f"its input {name} is {tensors[0].type}, not {FLOAT}")
    text = " x ".join(str(size or "?") for size in sizes)
    if len(sizes) != 4 or sizes[1] not in (1, 3):
        raise InvalidInput(
            f"its input {name} is {text}, not 1 x channels x height x width with 1 or 3 channels"
        )
    if isinstance(sizes[0], int) and sizes[0] != 1:
        raise InvalidInput(f"its input {name} takes {sizes[0]} images at once; export it for 1 or any number")
    channels = sizes[1]
    defaults = {"mean": MEAN, "deviation": DEVIATION, "channels": "colour"}
    if channels == 1:
        defaults = {"mean": MEAN[:1], "deviation": DEVIATION[:1], "channels": "grey"}
    complete = {**defaults, **fields}
    for field, size in (("height", sizes[2]), ("width", sizes[3])):
        if not isinstance(size, int) and field not in fields:
            raise InvalidInput(f"its input {name} is {text}, of any {field}: give input.{field} in a card")
        if isinstance(size, int) and complete.setdefault(field, size) != size:
            raise InvalidInput(f"its input has the {field} {size}, not {complete[field]} as the card says")
    shape = validated(EncoderInput, complete)
    if len(shape.mean) != channels:
        raise InvalidInput(f"it has {channels} channels, and the card {len(shape.mean)} means")
    return shape


def _only_output(session: Any) -> str:
    names = [tensor.name for tensor in session.get_outputs()]
    if len(names) != 1:
        raise InvalidInput(f"it has {len(names)} outputs ({', '.join(names)}): name those to use in a card")
    return str(names[0])


def _check_outputs(tensor: str, first: NDArray[Any], second: NDArray[Any]) -> None:
    for values in (first, second):
        if getattr(values, "dtype", None) != np.float32:
            raise InvalidInput(f"its output {tensor} is not of type float32")
        if not values.size:
            raise InvalidInput(f"its output {tensor} is empty")
        if not np.isfinite(values).all():
            raise InvalidInput(f"its output {tensor} is not finite: NaN or infinite for a test image")
    if first.shape != second.shape:
        raise InvalidInput(f"its output {tensor} has another shape for each image")


def _complete_output(fields: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Add pooling and dimensions by the shape of the output: 3 x 3 windows of a map."""
    complete = {"pooling": "grid" if len(shape) == 4 else "none", **fields}
    pooled = {
        "grid": complete.get("grid", 3) ** 2 if isinstance(complete.get("grid", 3), int) else 1,
        "global": 1,
    }
    size = shape[1] if len(shape) > 1 else 0
    return {"dimensions": size * pooled.get(complete["pooling"], 1), **complete}


def validated(model: type[Model], fields: Mapping[str, Any]) -> Model:
    """Return the part of a card that has these fields; raise InvalidInput if they are not valid."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"card: {field + ': ' if field else ''}{first['msg']}") from error
