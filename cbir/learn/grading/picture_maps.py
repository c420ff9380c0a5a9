"""Windows of graded pictures with what a pretrained network makes of them, each computed once."""

import math
import os
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Self, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors import encoders
from cbir.descriptors.encoders import built_in
from cbir.descriptors.encoders.encoder_card import EncoderInput
from cbir.descriptors.encoders.encoder_network import EncoderNetwork, normalise_pixels, run_session
from cbir.descriptors.encoders.network_writers import EfficientNetLite
from cbir.descriptors.networks.onnx_session import open_onnx_session
from cbir.errors import InvalidInput
from cbir.system.cancellation import checkpoint

Picture = NDArray[np.uint8]

AUTO = "auto"
WHOLE = "whole"


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


MIDDLE = "middle"  # output of the network whose maps are kept


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


LARGEST = 1 << 32  # bytes of the pictures
Integers = NDArray[np.int64]
Show = Callable[[str, int, int], None]


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
