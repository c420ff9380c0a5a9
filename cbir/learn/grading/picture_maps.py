"""Pictures of graded images with what a pretrained network makes of them, each computed once."""

import math
import os
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors import encoders
from cbir.descriptors.encoders.encoder_network import EncoderNetwork
from cbir.errors import InvalidInput
from cbir.learn.grading.network_trunk import NetworkTrunk, network_input
from cbir.system.cancellation import checkpoint

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
        chosen = self._rows[rows]
        return np.stack([originals[int(flip)][row] for row, flip in zip(chosen, mirrored, strict=True)])

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
