"""Windows of graded pictures, what a pretrained network makes of them, and tuned last stages; needs no torch."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Self, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors import encoders
from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.encoder_files import EncoderInput
from cbir.descriptors.encoders.encoder_network import EncoderNetwork, normalise_pixels, run_session
from cbir.descriptors.encoders.network_writers import EfficientNetLite
from cbir.descriptors.networks.model_card import open_onnx_session
from cbir.errors import InvalidInput
from cbir.system.threads import checkpoint

Picture = NDArray[np.uint8]
AUTO = "auto"
WHOLE = "whole"
MIDDLE = "middle"  # output of the network whose maps are kept
LARGEST = 1 << 32  # bytes of the pictures
Integers = NDArray[np.int64]
Show = Callable[[str, int, int], None]
LAST = "last"
EPSILON = 1e-5  # of torch's LayerNorm
HEAD = ("head.norm.weight", "head.norm.bias", "head.output.weight", "head.output.bias")
Floats = NDArray[np.float64]
Maps = NDArray[np.float16]
Tensors = Mapping[str, NDArray[np.float16]]


class ImageWindow(NamedTuple):
    """Part of an image: its edges as shares of height and width."""

    top: float
    bottom: float
    left: float
    right: float


WINDOWS = {
    WHOLE: ImageWindow(0, 1, 0, 1),
    "middle-rows": ImageWindow(0.25, 0.75, 0, 1),
    "middle-columns": ImageWindow(0, 1, 0.25, 0.75),
    "centre": ImageWindow(0.2, 0.8, 0.2, 0.8),
    "upper": ImageWindow(0, 0.5, 0, 1),
    "lower": ImageWindow(0.5, 1, 0, 1),
}


def parse_windows(text: str) -> tuple[str, ...]:
    """Return names of WINDOWS that are separated by commas, none for "auto"; raise InvalidInput for others."""
    names = () if text == AUTO else tuple(text.split(","))
    for name in names:
        if name not in WINDOWS:
            raise InvalidInput(f"there is no window {name!r}; there are: {', '.join((AUTO, *WINDOWS))}")
    return names


def cut_window(picture: Picture, name: str, side: int) -> Picture:
    """Scale the window `name` of a square grey `picture` to (side, side); its sides may be scaled differently."""
    window, size = WINDOWS[name], len(picture)
    top, bottom, left, right = (round(share * size) for share in window)
    cut = np.ascontiguousarray(picture[top:bottom, left:right])
    interpolation = cv2.INTER_AREA if min(cut.shape) >= side else cv2.INTER_LINEAR
    return cast(Picture, cv2.resize(cut, (side, side), interpolation=interpolation))


class NetworkTrunk:
    """Stages of an encoder made from EfficientNet-Lite, up to the maps that tuned blocks take. Thread-safe.

    Raises InvalidInput if the weights of the encoder are missing.
    """

    def __init__(self, encoder: str) -> None:
        weights, source = built_in.read_lite_weights(encoder)
        content = EfficientNetLite(weights, source.side, source.deeper).write({MIDDLE})
        self._session = open_onnx_session(content)
        self._input = cast(EncoderInput, built_in.CARDS[encoder].input)

    def maps(self, picture: NDArray[np.uint8], window: str, mirrored: bool) -> NDArray[np.float16]:
        """Return maps (112, side, side) of the window of a square grey picture, perhaps mirrored."""
        pixels = network_input(picture, window, self._input.width, mirrored)
        maps = run_session(self._session, [MIDDLE], normalise_pixels(pixels, self._input))[MIDDLE]
        return cast(NDArray[np.float16], maps[0].astype(np.float16))


def network_input(picture: NDArray[np.uint8], window: str, side: int, mirrored: bool) -> NDArray[np.uint8]:
    """Return the window of a grey picture as three equal channels, (side, side, 3), perhaps mirrored."""
    cut: NDArray[Any] = cut_window(picture, window, side)
    return np.repeat((cut[:, ::-1] if mirrored else cut)[:, :, None], 3, axis=2)


class PictureMaps:
    """Pictures (n, side, side), and maps and vectors of their windows; rows select a view that shares them.

    The maps are in a temporary file, 44 KB for each image and orientation, so that memory does not grow with them.

    Parameters
    ----------
    pictures : (n, side, side) uint8
        Grey pictures.
    encoder : str
        Encoder made from EfficientNet-Lite.
    show : callable
        Progress callback with stage, done and total.
    """

    def __init__(
        self, pictures: NDArray[np.uint8], encoder: str, show: Show = lambda stage, done, total: None
    ) -> None:
        if pictures.ndim != 3 or pictures.shape[1] != pictures.shape[2] or pictures.dtype != np.uint8:
            raise InvalidInput("a network takes square grey pictures, (n, side, side) uint8")
        check_size(len(pictures), pictures.shape[1])
        self.pictures, self.encoder, self.show = pictures, encoder, show
        self._rows = np.arange(len(pictures))
        self._maps: dict[tuple[str, bool], NDArray[np.float16]] = {}
        self._vectors: dict[tuple[str, int], NDArray[np.float32]] = {}
        self._networks: list[EncoderNetwork] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Integers) -> Self:
        view = object.__new__(type(self))
        vars(view).update(vars(self))
        view._rows = self._rows[rows]
        return view

    def sample(self, count: int, seed: int) -> Integers:
        """Return at most `count` row numbers; views of the same pictures have most of them in common."""
        turn = np.random.default_rng(seed).permutation(len(self.pictures))[self._rows]
        return np.sort(np.argsort(turn, kind="stable")[:count])

    def vectors(self, window: str, rows: Integers) -> NDArray[np.float32]:
        """Return the encoder's vectors (m, d) of the window of some rows."""
        network, side = self._network(), encoders.get(self.encoder).image_input.width
        for done, row in enumerate(self._rows[rows]):
            if (window, row) not in self._vectors:
                checkpoint()
                pixels = network_input(self.pictures[row], window, side, mirrored=False)
                self._vectors[window, row] = network.describe(pixels)
                self.show(f"window {window}", done + 1, len(rows))
        return np.array([self._vectors[window, row] for row in self._rows[rows]])

    def maps(self, window: str, rows: Integers, mirrored: NDArray[np.bool_]) -> NDArray[np.float16]:
        """Return maps (m, channels, side, side) of the window of some rows, each mirrored or not."""
        originals = [self._all_maps(window, bool(flip)) for flip in (False, True) if (mirrored == flip).any()]
        if len(originals) == 1:
            return originals[0][self._rows[rows]]
        numbers = self._rows[rows]
        return np.stack([originals[int(flip)][row] for row, flip in zip(numbers, mirrored, strict=True)])

    def _all_maps(self, window: str, mirrored: bool) -> NDArray[np.float16]:
        key = window, mirrored
        if key not in self._maps:
            trunk, stored = NetworkTrunk(self.encoder), None
            for row, picture in enumerate(self.pictures):
                checkpoint()
                maps = trunk.maps(picture, window, mirrored)
                if stored is None:
                    stored = _temporary_array((len(self.pictures), *maps.shape))
                stored[row] = maps
                self.show("maps, mirrored" if mirrored else "maps", row + 1, len(self.pictures))
            assert stored is not None
            self._maps[key] = stored
        return self._maps[key]

    def _network(self) -> EncoderNetwork:
        if not self._networks:
            self._networks.append(encoders.get(self.encoder).open_network(threads=1))
        return self._networks[0]


def _temporary_array(shape: tuple[int, ...]) -> NDArray[np.float16]:
    """Return an array in a temporary file; raise OSError if the disk has no room for it."""
    with TemporaryFile() as file:  # which exists as long as the map of its memory
        if hasattr(os, "posix_fallocate"):  # writing to a map of a full disk would end the process
            os.posix_fallocate(file.fileno(), 0, 2 * math.prod(shape))
        return np.memmap(file, np.float16, shape=shape)


def check_size(count: int, side: int) -> None:
    """Raise InvalidInput if so many pictures of this side take too much memory."""
    if count * side**2 > LARGEST:
        raise InvalidInput(
            f"{count} pictures with a side of {side} pixels need {count * side**2 >> 20} MB, more than "
            f"{LARGEST >> 20}; choose a smaller side or fewer images"
        )


class GradingNetwork:
    """Tuned stages of an encoder, and a head. Thread-safe.

    Parameters
    ----------
    encoder : str
        Encoder made from EfficientNet-Lite.
    tensors : mapping
        Tuned tensors by the names of the state dict, and those of the head.
    levels : (k + 1,) float64
        Grades, ascending.
    window : str
        Part of the picture that the network sees.
    mirror : bool
        Average over the picture and its mirror image.

    Raises
    ------
    InvalidInput
        If the weights of the encoder are missing, or the tensors do not fit it.
    """

    def __init__(self, encoder: str, tensors: Tensors, levels: Floats, window: str, mirror: bool) -> None:
        self.encoder, self.tensors, self.levels, self.window = encoder, tensors, levels, window
        self.mirror = mirror
        weights, source = built_in.read_lite_weights(encoder)
        tuned = {name: tensors[name] for name in tensors if name not in HEAD}
        shapes = {name: weights[name].shape if name in weights else None for name in tuned}
        if any(tuned[name].shape != shape for name, shape in shapes.items()) or not set(HEAD) <= set(tensors):
            raise InvalidInput(
                f"the tuned weights do not fit the encoder {encoder}; run `cbir grade fit` again"
            )
        network = EfficientNetLite({**weights, **tuned}, source.side, source.deeper)
        self._session = open_onnx_session(network.write({LAST}, after=MIDDLE))
        self._head = [np.asarray(tensors[name], np.float32) for name in HEAD]

    def orientations(self) -> tuple[bool, ...]:
        """Return for each pass through the network whether it takes the mirror image."""
        return (False, True) if self.mirror else (False,)

    def grade(self, maps: Maps) -> float:
        """Return the expected grade of a picture from its maps in each orientation, (1 or 2, 112, side, side)."""
        return float(np.mean([self._run(one) for one in maps.astype(np.float32)]))

    def _run(self, maps: NDArray[np.float32]) -> float:
        values = mean_and_max(run_session(self._session, [LAST], maps[None])[LAST])[0]
        scale, shift, weight, bias = self._head
        normal = (values - values.mean()) / np.sqrt(values.var() + EPSILON)
        logits = weight @ (normal * scale + shift) + bias
        steps = np.diff(self.levels) / (1.0 + np.exp(-logits.astype(np.float64)))
        return float(self.levels[0] + steps.sum())


def mean_and_max(maps: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return mean and maximum (n, 2 channels) of each channel of maps (n, channels, height, width)."""
    values = maps.astype(np.float32)
    return np.concatenate([values.mean(axis=(2, 3)), values.max(axis=(2, 3))], axis=1)


class NetworkMean:
    """Mean of the expected grades of `networks`, at least one, of the same encoder. Thread-safe."""

    def __init__(self, networks: Sequence[GradingNetwork]) -> None:
        self.networks = tuple(networks)
        self._trunk = NetworkTrunk(self.networks[0].encoder)

    def grade(self, picture: NDArray[np.uint8]) -> tuple[float, NDArray[np.float32]]:
        """Return the expected grade of a grey picture (side, side), and values (224,) of the first network's window.

        Raises InvalidInput if it is no such picture.
        """
        if picture.ndim != 2 or picture.shape[0] != picture.shape[1] or picture.dtype != np.uint8:
            raise InvalidInput("the grader was fitted to pictures, which this is not; send the image again")
        maps = {
            window: np.stack([self._trunk.maps(picture, window, flip) for flip in network.orientations()])
            for window, network in {network.window: network for network in self.networks}.items()
        }
        grades = [network.grade(maps[network.window]) for network in self.networks]
        return float(np.mean(grades)), mean_and_max(maps[self.networks[0].window][:1])[0]

    def grade_all(self, pictures: PictureMaps) -> NDArray[np.float64]:
        """Return the expected grades (n,) of pictures."""
        grades = np.empty((len(self.networks), len(pictures)))
        for row in range(len(pictures)):
            checkpoint()
            for number, network in enumerate(self.networks):
                flips = np.array(network.orientations())
                grades[number, row] = network.grade(
                    pictures.maps(network.window, np.full(len(flips), row), flips)
                )
            pictures.show("grading", row + 1, len(pictures))
        return cast(NDArray[np.float64], grades.mean(axis=0))
