"""Training of the last blocks of a pretrained network on grades, from maps of its middle that are computed once.

A logit per threshold between adjacent grades (Niu et al. 2016, *Ordinal Regression with Multiple Output CNN for Age
Estimation*): the sum of their sigmoids is the expected grade.

The blocks are products of matrices, which CPUs train five times as fast as convolutions: the gradient of a depthwise
convolution is slow on CPUs; on a map of few places it is a small matrix per channel. Batch norms keep the statistics
of their pretraining, and are folded into the layers before them.
"""

import copy
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from cbir.descriptors.networks.efficientnet_lite_network import EPSILON, STAGES
from cbir.errors import InvalidInput
from cbir.learn.training.fine_tuning import run_training_loop

FIRST_STAGE = 6  # of the tail, counted from 1; it takes the maps of the stage before


class LiteTail(nn.Module):
    """Stages 6 and 7: maps (112, n, side * side) to maps (320, n, places), with a channel per row.

    Parameters
    ----------
    weights : mapping
        Tensors of the network's state dict, by name.
    deeper : int
        Blocks that each stage has more than in Lite0, the first and last stage apart.
    side : int
        Height and width of the maps that go in.
    trained : int
        Last blocks to train; the others are frozen.
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]], deeper: int, side: int, trained: int) -> None:
        super().__init__()
        counts = [
            count + deeper * (stage not in (1, len(STAGES))) for stage, (*_, count) in enumerate(STAGES, 1)
        ]
        number = sum(counts[: FIRST_STAGE - 1])
        self._first = number
        blocks = []
        for (_, stride, *_), count in zip(STAGES[FIRST_STAGE - 1 :], counts[FIRST_STAGE - 1 :], strict=True):
            for repeat in range(count):
                block = _MatrixBlock(weights, f"_blocks.{number}.", side, 1 if repeat else stride, repeat > 0)
                blocks.append(block)
                side, number = block.side, number + 1
        for block in blocks[: max(0, len(blocks) - trained)]:
            block.requires_grad_(False)
        self._blocks = nn.ModuleList(blocks)

    def forward(self, maps: Tensor) -> Tensor:
        for block in self._blocks:
            maps = block(maps)
        return maps

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights under the names of the state dict, with batch norms that only add a bias."""
        parts: dict[str, NDArray[np.float32]] = {}
        for number, block in enumerate(self._blocks, self._first):
            assert isinstance(block, _MatrixBlock)
            parts |= block.tensors(f"_blocks.{number}.")
        return parts


class _Layer(NamedTuple):
    """Names of a convolution, its batch norm and its parameters in `_MatrixBlock`."""

    convolution: str
    norm: str
    weight: str
    bias: str


_LAYERS = (
    _Layer("_expand_conv", "_bn0", "expand", "expand_bias"),
    _Layer("_depthwise_conv", "_bn1", "depthwise", "depthwise_bias"),
    _Layer("_project_conv", "_bn2", "project", "project_bias"),
)


class _MatrixBlock(nn.Module):
    """Block of MobileNetV2 on maps (channels, n, places)."""

    expand: Tensor
    expand_bias: Tensor
    depthwise: Tensor
    depthwise_bias: Tensor
    project: Tensor
    project_bias: Tensor
    taps: Tensor

    def __init__(
        self, weights: Mapping[str, NDArray[Any]], prefix: str, side: int, stride: int, has_shortcut: bool
    ) -> None:
        super().__init__()
        for layer in _LAYERS:
            weight, bias = _fold(weights, prefix + layer.convolution, prefix + layer.norm)
            setattr(self, layer.weight, nn.Parameter(weight.flatten(1)))
            setattr(self, layer.bias, nn.Parameter(bias))
        self._kernel = int(weights[f"{prefix}_depthwise_conv.weight"].shape[-1])
        self.side, self._has_shortcut = -(-side // stride), has_shortcut
        self.register_buffer("taps", _tap_matrices(side, self._kernel, stride), persistent=False)

    def forward(self, source: Tensor) -> Tensor:
        places = source.shape[2]
        wide = functional.relu6(self.expand @ source.flatten(1) + _column(self.expand_bias, source))
        matrices = (self.depthwise @ self.taps).view(len(wide), places, -1)
        wide = torch.bmm(wide.view(len(wide), -1, places), matrices)
        wide = functional.relu6(wide + _column(self.depthwise_bias, source)[:, :, None])
        maps = (self.project @ wide.flatten(1) + _column(self.project_bias, source)).view(
            -1, source.shape[1], self.side**2
        )
        return maps + source if self._has_shortcut else maps

    def tensors(self, prefix: str) -> dict[str, NDArray[np.float32]]:
        parts: dict[str, NDArray[np.float32]] = {}
        for layer in _LAYERS:
            weight = getattr(self, layer.weight).detach().numpy()
            bias = getattr(self, layer.bias).detach().numpy()
            kernel = self._kernel if layer.weight == "depthwise" else 1
            ones = np.ones_like(bias)
            parts[f"{prefix}{layer.convolution}.weight"] = weight.reshape(len(bias), -1, kernel, kernel)
            norm = {
                "weight": ones,
                "bias": bias,
                "running_mean": 0 * ones,
                "running_var": ones - np.float32(EPSILON),
            }
            parts |= {f"{prefix}{layer.norm}.{name}": values for name, values in norm.items()}
        return parts


def _fold(weights: Mapping[str, NDArray[Any]], layer: str, norm: str) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a convolution with the batch norm after it."""
    scale, shift, mean, variance = (
        torch.from_numpy(np.array(weights[f"{norm}.{name}"], np.float32))
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    factor = scale / torch.sqrt(variance + EPSILON)
    weight = torch.from_numpy(np.array(weights[f"{layer}.weight"], np.float32))
    return weight * factor[:, None, None, None], shift - mean * factor


def _tap_matrices(side: int, kernel: int, stride: int) -> Tensor:
    """Return the matrix of each tap of a convolution with padding SAME: (kernel^2, places in x places out)."""
    out = -(-side // stride)
    padding = max((out - 1) * stride + kernel - side, 0)
    before, after = padding // 2, padding - padding // 2
    units = functional.pad(torch.eye(side**2).view(-1, 1, side, side), (before, after, before, after))
    taps = torch.eye(kernel**2).view(-1, 1, kernel, kernel)
    moved = functional.conv2d(units, taps, stride=stride)  # places in, taps, out, out
    return moved.permute(1, 0, 2, 3).reshape(kernel**2, -1)


def _column(bias: Tensor, like: Tensor) -> Tensor:
    return bias[:, None].to(like.dtype)


BATCH = 32
WEIGHT_DECAY, DROPOUT = 0.05, 0.3
HEAD_RATE = 3.0  # times that of the blocks
WARM_UP = 30  # steps
AVERAGED = 0.99  # of the weights' moving average
ERASED = 0.3  # share of the maps from which a patch is erased
LARGEST_GRADIENT = 5.0  # norm

Batch = Callable[[NDArray[np.int64], NDArray[np.bool_]], NDArray[np.float16]]


class TuningOptions(NamedTuple):
    """Options of the training.

    blocks: last blocks of the network to train. epochs: passes through the images. rate: of AdamW, for the blocks.
    mirror: half the images are mirrored. seed: of everything random.
    """

    blocks: int
    epochs: int
    rate: float
    mirror: bool
    seed: int


def tune_on_grades(
    weights: Mapping[str, NDArray[Any]],
    deeper: int,
    read_batch: Batch,
    side: int,
    thresholds: NDArray[np.bool_],
    options: TuningOptions,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, NDArray[np.float32]]:
    """Train blocks and a new head; the result is the moving average of their weights.

    Parameters
    ----------
    weights : mapping
        Tensors of the network's state dict, by name.
    deeper : int
        See `LiteTail`.
    read_batch : callable
        Returns the maps (b, 112, side, side) of the stage before the tail for row numbers (b,) and for each whether
        the image is mirrored.
    side : int
        Height and width of these maps.
    thresholds : (n, k) bool
        For each image, which of the k thresholds between adjacent grades its grade exceeds.
    options : TuningOptions
        Options.
    show : callable
        Progress callback with done and total steps.

    Returns
    -------
    dict
        Tensors of the blocks by the names of the state dict, and "head.*".

    Raises
    ------
    InvalidInput
        If the loss becomes infinite.
    """
    random = np.random.default_rng(options.seed)
    count, size = len(thresholds), min(BATCH, len(thresholds))
    per_epoch = max(1, count // size)
    steps = options.epochs * per_epoch
    dtype = torch.bfloat16 if has_fast_bfloat16() else torch.float32
    targets = torch.from_numpy(thresholds.astype(np.float32))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        network = _OrdinalTail(
            LiteTail(weights, deeper, side, options.blocks), targets.mean(0), dtype
        ).train()
        average = copy.deepcopy(network)
        order = random.permutation(count)

        def batch_loss(step: int) -> Tensor:
            nonlocal order
            position = step % per_epoch
            if not position:
                order = random.permutation(count)
            rows = order[position * size : (position + 1) * size]
            mirrored = random.random(len(rows)) < 0.5 * options.mirror
            maps = _augment(read_batch(rows, mirrored), random)
            return functional.binary_cross_entropy_with_logits(network(torch.from_numpy(maps)), targets[rows])

        def on_step(done: int, loss: Tensor) -> None:
            if not math.isfinite(loss.item()):
                raise InvalidInput("the loss became infinite; use a lower rate")
            kept = min(AVERAGED, done / (done + 10))
            with torch.no_grad():
                for mean, value in zip(average.parameters(), network.parameters(), strict=True):
                    mean.lerp_(value, 1 - kept)
            show(done, steps)

        head = [*network.norm.parameters(), *network.output.parameters()]
        tail = [value for value in network.tail.parameters() if value.requires_grad]
        groups: list[dict[str, Any]] = [{"params": tail}, {"params": head, "rate_factor": HEAD_RATE}]
        run_training_loop(
            network,
            torch.optim.AdamW(groups, options.rate, weight_decay=WEIGHT_DECAY),
            batch_loss,
            steps,
            rate=lambda step: _rate(options.rate, step, steps),
            largest_gradient=LARGEST_GRADIENT,
            on_step=on_step,
        )
    return average.tensors()


def has_fast_bfloat16() -> bool:
    """Return True if the processor multiplies matrices of bfloat16 in tiles (AMX), which doubles the speed."""
    facts = Path("/proc/cpuinfo")
    return facts.is_file() and "amx_bf16" in facts.read_text(encoding="utf-8")


class _OrdinalTail(nn.Module):
    """Tail, mean and maximum of its maps, and a linear head: maps (n, 112, side, side) to logits (n, k)."""

    def __init__(self, tail: LiteTail, shares: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.tail, self._dtype = tail, dtype
        features = 2 * STAGES[-1][3]
        self.norm, self.dropout = nn.LayerNorm(features), nn.Dropout(DROPOUT)
        self.output = nn.Linear(features, len(shares))
        nn.init.zeros_(self.output.weight)
        with torch.no_grad():
            self.output.bias.copy_(torch.logit(shares, eps=1e-3))

    def forward(self, images: Tensor) -> Tensor:
        maps = images.to(self._dtype).flatten(2).transpose(0, 1).contiguous()
        with torch.autocast("cpu", torch.bfloat16, enabled=self._dtype == torch.bfloat16):
            maps = self.tail(maps)
        values = torch.cat([maps.float().mean(2), maps.float().amax(2)]).T
        logits: Tensor = self.output(self.dropout(self.norm(values)))
        return logits

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        head = {"norm": self.norm, "output": self.output}
        return self.tail.tensors() | {
            f"head.{name}.{kind}": getattr(layer, kind).detach().numpy()
            for name, layer in head.items()
            for kind in ("weight", "bias")
        }


def _augment(maps: NDArray[np.float16], random: np.random.Generator) -> NDArray[np.float32]:
    """Shift maps (n, channels, side, side) by up to a place, and erase a patch from some."""
    down, right = random.integers(-1, 2, 2)
    shifted = np.roll(maps, (down, right), (2, 3)).astype(np.float32)
    side = maps.shape[2]
    for row in np.flatnonzero(random.random(len(maps)) < ERASED):
        height, width = random.integers(2, max(3, side // 3 + 1), 2)
        top, left = random.integers(0, side - height + 1), random.integers(0, side - width + 1)
        shifted[row, :, top : top + height, left : left + width] = 0.0
    return shifted


def _rate(highest: float, step: int, steps: int) -> float:
    return highest * min(1.0, (step + 1) / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2
