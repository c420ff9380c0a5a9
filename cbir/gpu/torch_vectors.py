"""Vectors of a gallery on a device, in half precision where they fit."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Floats
from cbir.hardware.device_memory import in_pieces, rows_within

MOST_IN_HALF = 60_000.0  # float16 ends at 65,504
UPLOADED = 64 << 20  # bytes copied to the device at a time
# Bytes of float32 results of a block. On a GPU they stay in an L2 cache of 50 MB from the product to the sum, on a
# processor in a core's; larger steps leave the GPU no time to wait.
RESULTS = {"cuda": 36 << 20, "cpu": 128 << 10}
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

    def for_each_block(self, columns: int, work: Callable[[slice, Tensor], None]) -> None:
        """Call work(slice of the rows, (m, d) vectors) for all rows in order, a block at a time.

        The products of a block and `columns` columns fit into RESULTS, and the memory of the device.
        """
        size, done = rows_within(RESULTS[self.device.type], 4 * columns), 0
        for _, copy, _ in self._blocks:
            first, vectors = done, copy

            def compute(rows: slice, first: int = first, vectors: Tensor = vectors) -> None:
                work(slice(first + rows.start, first + rows.stop), vectors[rows])

            for _ in in_pieces(compute, len(copy), size):
                pass
            done += len(copy)

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

        def fill(rows: slice, vectors: Tensor) -> None:
            if vectors.dtype == torch.float16:
                parts = multiply(vectors, halves)
                torch.add(parts[:, :count], parts[:, count : 2 * count], out=out[rows])
            else:
                torch.mm(vectors, exact, out=out[rows])

        self.for_each_block(halves.shape[1], fill)
        return out.mul_(scale)

    def _uploaded(self, block: Floats) -> tuple[Tensor, Tensor]:
        largest = max(float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
        stored = np.float16 if self.half and largest <= MOST_IN_HALF else np.float32
        dtype = torch.float16 if stored is np.float16 else torch.float32
        copy = torch.empty(block.shape, dtype=dtype, device=self.device)
        norms = torch.empty(len(block), dtype=torch.float32, device=self.device)

        def upload(rows: slice) -> None:
            copy[rows] = torch.from_numpy(block[rows].astype(stored)).to(self.device)
            norms[rows] = copy[rows].float().square().sum(dim=1)

        for _ in in_pieces(upload, len(block), rows_within(UPLOADED, 4 * block.shape[1])):
            pass
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
