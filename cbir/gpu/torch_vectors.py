"""Vectors of a gallery on a device, in half precision where they fit."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Floats

MOST_IN_HALF = 60_000.0  # float16 ends at 65,504
UPLOADED = 65_536  # rows copied to the device at a time
# Rows multiplied at a time. On a GPU the results of a block, 72 float32 a row with SVMs, stay in an L2 cache of
# 50 MB from the product to the sum; on a processor in a core's. A few columns stay there for more rows, and fewer,
# larger steps leave the GPU no time to wait for the next.
WIDE = {"cuda": 131_072, "cpu": 4096}
NARROW = {"cuda": 1_048_576, "cpu": 4096}
ALIGNED = 8  # columns: tensor cores want rows of 16 bytes


class TorchVectors:
    """n vectors on a device, in the blocks of the gallery. Not thread-safe.

    Parameters
    ----------
    device : str
        Device in torch's notation.
    half : bool
        Whether blocks within its range are stored as float16: half the bytes of every pass, and a relative error of
        1e-5 in distances, which is corrected at the head of a list from the gallery's float32.
    """

    def __init__(self, device: str, half: bool = True) -> None:
        self.device = torch.device(device)
        self.half = half
        # The gallery's block, its copy, the squared norms of its copy.
        self._blocks: list[tuple[Floats, Tensor, Tensor]] = []

    def follow(self, gallery: Gallery) -> None:
        """Copy the blocks of `gallery` that are not on the device yet, and drop those that it no longer has."""
        current: list[tuple[Floats, Tensor, Tensor]] = []
        for number, block in enumerate(gallery.blocks):
            if number < len(self._blocks) and self._blocks[number][0] is block:
                current.append(self._blocks[number])
                continue
            self._blocks = current  # frees replaced blocks before the copy
            current = [*current, (block, *self._uploaded(block))]
        self._blocks = current

    def has(self, gallery: Gallery) -> bool:
        """Return whether all blocks of `gallery` are on the device."""
        stored = [block for block, _, _ in self._blocks]
        return len(stored) == len(gallery.blocks) and all(
            copied is block for copied, block in zip(stored, gallery.blocks, strict=True)
        )

    def __len__(self) -> int:
        return sum(len(copy) for _, copy, _ in self._blocks)

    @property
    def squared_norms(self) -> Tensor:
        """Squared norms (n,) float32 of the stored vectors, so that distances are those of the stored values."""
        norms = [norms for _, _, norms in self._blocks]
        return norms[0] if len(norms) == 1 else torch.cat(norms)

    def blocks(self, rows: dict[str, int]) -> Iterator[tuple[slice, Tensor]]:
        """Yield (slice of the rows, (m, d) vectors) in order, at most rows[type of device] at a time."""
        size, done = rows[self.device.type], 0
        for _, copy, _ in self._blocks:
            for start in range(0, len(copy), size):
                piece = copy[start : start + size]
                yield slice(done, done + len(piece)), piece
                done += len(piece)

    def products(self, columns: Floats) -> Tensor:
        """Multiply all vectors by `columns` (d, c), which keep their full precision: (n, c) float32 in one pass."""
        # A power of two takes no digit of any value, and the largest fits half precision.
        scale = 2.0 ** max(0, int(np.frexp(np.abs(columns).max(initial=0.0))[1]))
        exact = torch.from_numpy(np.ascontiguousarray(columns / np.float32(scale))).to(self.device)
        count = exact.shape[1]
        out = torch.empty((len(self), count), dtype=torch.float32, device=self.device)
        upper = exact.half()
        lower = (exact - upper.float()).half()  # what half precision rounds away
        halves = pad_columns(torch.cat([upper, lower], dim=1))
        for rows, vectors in self.blocks(NARROW):
            if vectors.dtype == torch.float16:
                parts = multiply(vectors, halves)
                torch.add(parts[:, :count], parts[:, count : 2 * count], out=out[rows])
            else:
                torch.mm(vectors, exact, out=out[rows])
        return out.mul_(scale)

    def _uploaded(self, block: Floats) -> tuple[Tensor, Tensor]:
        largest = max(float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
        stored = np.float16 if self.half and largest <= MOST_IN_HALF else np.float32
        dtype = torch.float16 if stored is np.float16 else torch.float32
        copy = torch.empty(block.shape, dtype=dtype, device=self.device)
        norms = torch.empty(len(block), dtype=torch.float32, device=self.device)
        for start in range(0, len(block), UPLOADED):
            rows = slice(start, start + UPLOADED)
            copy[rows] = torch.from_numpy(block[rows].astype(stored)).to(self.device)
            norms[rows] = copy[rows].float().square().sum(dim=1)
        return copy, norms


def multiply(vectors: Tensor, columns: Tensor) -> Tensor:
    """Multiply `vectors` (m, d) by `columns` (d, c), both float16 or both float32; sums (m, c) are float32."""
    if vectors.dtype == torch.float32:
        return vectors @ columns
    if vectors.is_cuda:
        return torch.mm(vectors, columns, out_dtype=torch.float32)
    return vectors.float() @ columns.float()  # the same numbers: a product of two float16 fits float32


def pad_columns(columns: Tensor) -> Tensor:
    """Append zero columns to `columns` (d, c), to a multiple of ALIGNED."""
    missing = -columns.shape[1] % ALIGNED
    return torch.nn.functional.pad(columns, (0, missing)) if missing else columns.contiguous()
