"""ONNX networks of encoders, run by onnxruntime, and the pooling of their maps."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderInput, EncoderOutput, VolumeInput
from cbir.errors import InvalidInput, UndescribableImage, UnreadableImage
from cbir.images import Image
from cbir.images.scaling import window_means
from cbir.images.volume import Volume
from cbir.system.threads import checkpoint, locked

_PILLOW = {"linear": PillowImage.Resampling.BILINEAR, "cubic": PillowImage.Resampling.BICUBIC}


def fit_image(image: Image, shape: EncoderInput) -> NDArray[np.uint8]:
    """Scale `image` to the input of a network: (height, width, channels) uint8."""
    pixels = image.grey if shape.channels == "grey" else image.pixels
    width, height = shape.width, shape.height
    if shape.fit == "crop":
        ratio = width / height
        rows = max(1, round(min(image.height, image.width / ratio)))
        columns = max(1, round(min(image.width, image.height * ratio)))
        top, left = (image.height - rows) // 2, (image.width - columns) // 2
        pixels = pixels[top : top + rows, left : left + columns]
    if shape.fit == "letterbox":
        scale = min(width / image.width, height / image.height)
        inner = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        scaled = _pad(_resize(pixels, *inner, shape.interpolation), width, height)
    else:
        scaled = _resize(pixels, width, height, shape.interpolation)
    if scaled.ndim == 2:
        return np.asarray(cv2.merge([scaled] * 3)) if len(shape.mean) == 3 else scaled[:, :, None]
    return scaled


def _resize(pixels: NDArray[np.uint8], width: int, height: int, interpolation: str) -> NDArray[np.uint8]:
    if interpolation != "area":
        return np.asarray(PillowImage.fromarray(pixels).resize((width, height), _PILLOW[interpolation]))
    # OpenCV averages areas only where neither side grows
    smaller = min(width, pixels.shape[1]), min(height, pixels.shape[0])
    scaled: Any = cv2.resize(np.ascontiguousarray(pixels), smaller, interpolation=cv2.INTER_AREA)
    if smaller != (width, height):
        scaled = cv2.resize(scaled, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(scaled, np.uint8)


def _pad(pixels: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Put pixels on the centre of a black image."""
    padded = np.zeros((height, width, *pixels.shape[2:]), np.uint8)
    top, left = (height - pixels.shape[0]) // 2, (width - pixels.shape[1]) // 2
    padded[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return padded


# (height, width, channels) uint8 of an image, or (x, y, z) int16 of a volume
Prepared = NDArray[np.integer[Any]]


def fit_input(image: Image, card: EncoderCard) -> Prepared:
    """Return the input of a network: pixels of an image, or voxels of a `Volume`.

    Raises UnreadableImage if the encoder is for the other kind.
    """
    if not isinstance(card.input, VolumeInput):
        if isinstance(image, Volume):
            raise UnreadableImage(f"the encoder {card.name} describes single images, not CT series")
        return fit_image(image, card.input)
    if not isinstance(image, Volume):
        raise UnreadableImage(
            f"the encoder {card.name} describes CT series, not single images; index the folder of a series, or a "
            "NIfTI file, on the command line; search with one, or with a ZIP archive of a series"
        )
    return image.voxels


def normalise_voxels(voxels: Prepared, shape: VolumeInput) -> NDArray[np.float32]:
    """Bring voxels (x, y, z) to the network's form: (1, 1, z, x, y) float32 from 0 to 1."""
    values = voxels.transpose(2, 0, 1).astype(np.float32)
    values -= np.float32(shape.low)
    values /= np.float32(shape.high - shape.low)
    return np.clip(values, 0, 1, out=values)[None, None]


def pooling_matrix(output: EncoderOutput, shape: Sequence[int]) -> NDArray[np.float32] | None:
    """Return the weights (values, places) that average a map (1, channels, height, width); None without averages.

    Raises InvalidInput if the shape does not fit the pooling or the dimensions of the card.
    """
    if output.pooling == "none":
        if len(shape) != 2 or shape[0] != 1:
            raise InvalidInput(f"output {output.tensor} has shape {_text(shape)}, no vector: pool it")
        weights, dimensions = None, shape[1]
    else:
        if len(shape) != 4 or shape[0] != 1:
            raise InvalidInput(f"output {output.tensor} has shape {_text(shape)}, which cannot be pooled: "
                               "it takes 1 x channels x height x width")  # fmt: skip
        grid, window = (output.grid, output.window) if output.pooling == "grid" else (1, 1.0)
        weights = None if output.pooling == "max" else window_means(shape[2], shape[3], grid, window)
        dimensions = grid * grid * shape[1]
    if dimensions != output.dimensions:
        raise InvalidInput(f"output {output.tensor} gives {dimensions} values, not {output.dimensions} "
                           "as the card says")  # fmt: skip
    return weights


def pool(values: NDArray[np.float32], weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Average a map by the weights of `pooling_matrix`: window by window, the channels of each.

    Without weights, return the maximum of each channel of a map, or a vector (1, values) as it is.
    """
    if weights is None:
        return (values.max(axis=(2, 3)) if values.ndim == 4 else values).ravel()
    places = values.reshape(values.shape[1], -1)
    return np.asarray(weights @ places.T).ravel()


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


GREATEST_VALUE = float(np.finfo(np.float16).max)  # collections store the values as float16


class EncoderNetwork:
    """Session of onnxruntime, with normalisation and pooling by a card. Thread-safe.

    Raises InvalidInput if the network has not the outputs that the card gives.
    """

    def __init__(self, session: Any, card: EncoderCard) -> None:
        self._session, self._name, self._input = session, card.name, card.input
        self._one_volume = Lock()  # a volume takes seconds on all cores, and 1.5 GB
        self._tensors = list(dict.fromkeys(output.tensor for output in card.outputs))
        shapes = self._read_shapes(session, card)
        self._pooling = [
            (output.tensor, pooling_matrix(output, shapes[output.tensor]), np.float32(output.weight))
            for output in card.outputs
        ]

    def _read_shapes(self, session: Any, card: EncoderCard) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the outputs, of networks for images by a trial; for volumes it would take seconds."""
        if isinstance(card.input, VolumeInput):
            return {tensor.name: tuple(tensor.shape) for tensor in session.get_outputs()}
        shape = card.input.height, card.input.width, len(card.input.mean)
        return {name: values.shape for name, values in self.run(np.zeros(shape, np.uint8)).items()}

    def describe(self, pixels: Prepared) -> NDArray[np.float32]:
        """Describe a prepared image or volume: (dimensions,) float32.

        Raises UndescribableImage for values that are not finite, or that float16 cannot hold.
        """
        maps = self.run(pixels)
        with np.errstate(over="ignore", invalid="ignore"):
            vector = np.concatenate(
                [weight * pool(maps[tensor], matrix) for tensor, matrix, weight in self._pooling]
            )
        if not np.isfinite(vector).all():
            raise UndescribableImage(
                f"the encoder {self._name} gives values that are not finite for the image"
            )
        if np.abs(vector).max() > GREATEST_VALUE:
            raise UndescribableImage(
                f"the encoder {self._name} gives values for the image that exceed {GREATEST_VALUE:.0f}, "
                "the range of float16"
            )
        return vector

    def run(self, pixels: Prepared) -> dict[str, NDArray[np.float32]]:
        """Return the outputs for a prepared image or volume by their names."""
        if not isinstance(self._input, VolumeInput):
            return run_session(self._session, self._tensors, normalise_pixels(pixels, self._input))
        with locked(self._one_volume):
            checkpoint()
            return run_session(self._session, self._tensors, normalise_voxels(pixels, self._input))


def normalise_pixels(pixels: Prepared, shape: EncoderInput) -> NDArray[np.float32]:
    """Bring pixels (height, width, channels) to the network's form: (1, channels, height, width) float32."""
    factor, offset = pixel_factors(shape)
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))  # eight times as fast as transposing at the end
    values = np.multiply(planes, factor, dtype=np.float32)
    values -= offset
    return values[None]


def pixel_factors(shape: EncoderInput) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return what pixels are multiplied by, and what is subtracted then: (channels, 1, 1) float32 each."""
    deviation = np.array(shape.deviation).reshape(-1, 1, 1)
    factor = (1 / (shape.scale * deviation)).astype(np.float32)
    return factor, (np.array(shape.mean).reshape(-1, 1, 1) / deviation).astype(np.float32)


def run_session(
    session: Any, tensors: Sequence[str], values: NDArray[np.float32]
) -> dict[str, NDArray[np.float32]]:
    """Run a network with one input.

    Parameters
    ----------
    session : InferenceSession
        From `open_onnx_session`.
    tensors : sequence of str
        Names of the outputs.
    values : array
        Its input.

    Returns
    -------
    dict
        Outputs by name.

    Raises
    ------
    InvalidInput
        If there is no such output or the network fails.
    """
    names = [tensor.name for tensor in session.get_outputs()]
    if missing := [tensor for tensor in tensors if tensor not in names]:
        raise InvalidInput(f"the network has no output {missing[0]}; it has {', '.join(names)}")
    try:
        outputs = session.run(list(tensors), {session.get_inputs()[0].name: values})
    except Exception as error:  # exceptions of onnxruntime have no common base, and no public names
        reason = str(error).strip().splitlines()[0][:300]
        raise InvalidInput(f"the network fails: {reason}") from error
    return dict(zip(tensors, outputs, strict=True))
