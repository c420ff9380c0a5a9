"""Sorters trained on synthetic scores: a recurrent and a convolutional one (Engilberge et al. 2019, fig. 3)."""

import math
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from cbir.errors import InvalidInput
from cbir.learn.models.sorters.sorter import Sorter


def scale_to_range(scores: Tensor) -> Tensor:
    """Shift and scale each vector of `scores` (batch, d) to the range -1 to 1; a constant vector becomes 0.

    Ranks do not depend on shift and scale, so the gradient flows through the scores alone.
    """
    low, high = torch.aminmax(scores.detach(), dim=1, keepdim=True)
    half = high / 2 - low / 2  # their difference might overflow
    centre = low + half
    return (scores - centre) / torch.where(half > 0, half, torch.ones_like(half))


KINDS = ("uniform", "normal", "evenly spaced", "mixture")


def draw_scores(count: int, length: int, generator: torch.Generator) -> Tensor:
    """Draw scores as in Engilberge et al. (2019), section 3.1.2.

    Each vector is of one of four equally likely kinds: uniform over [-1, 1]; normal with mean 0 and deviation 1;
    evenly spaced numbers in a random sub-range of [-1, 1], in random order; or a mixture of two of these, with a
    random share of the positions from the second.

    Parameters
    ----------
    count, length : int
        Number of vectors, and of scores in each.
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    (count, length) float32
    """
    kinds = torch.randint(len(KINDS), (count, 1), generator=generator)
    first = torch.randint(3, (count, 1), generator=generator)
    second = (first + torch.randint(1, 3, (count, 1), generator=generator)) % 3
    share = torch.rand(count, 1, generator=generator)
    mixed = torch.rand(count, length, generator=generator) < share
    kinds_of_scores = torch.where(kinds < 3, kinds, torch.where(mixed, second, first))
    pure = torch.stack([
        2 * torch.rand(count, length, generator=generator) - 1,
        torch.randn(count, length, generator=generator),
        _evenly_spaced(count, length, generator),
    ])  # fmt: skip
    return pure.gather(0, kinds_of_scores.expand(count, length)[None])[0]


def _evenly_spaced(count: int, length: int, generator: torch.Generator) -> Tensor:
    ends = (2 * torch.rand(count, 2, generator=generator) - 1).sort(dim=1).values
    low, high = ends[:, :1], ends[:, 1:]
    order = torch.rand(count, length, generator=generator).argsort(dim=1)
    return low + (high - low) * order / max(1, length - 1)


CELL_COUNT = 3e-4  # contribution of a score to a cell: hundreds stay where tanh is linear
SATURATED = 12.0

# Steepness of comparisons over the width of a bin; more of it gives stairs without slopes
COUNTING_STEEPNESS, SELECTING_STEEPNESS = 2.0, 4.0


class LstmSorter(Sorter):
    """Bidirectional LSTM over the scores, then one linear layer for all positions (Engilberge et al. 2019, fig. 3a).

    Accepts any length, but is accurate only up to about the length it was trained for.

    Parameters
    ----------
    hidden : int
        Units per direction; 512 in the paper's code.
    layers : int
        Layers; 2 in the paper's code.
    length : int
        Scores per vector in training.
    """

    name = "lstm"

    def __init__(self, hidden: int = 192, layers: int = 1, length: int = 100) -> None:
        super().__init__()
        self.options = {"hidden": hidden, "layers": layers, "length": length}
        if hidden < 4 or layers < 1 or length < 2:
            raise InvalidInput("an LSTM sorter needs at least 4 hidden units, 1 layer and a length of 2")
        self.length = length
        self.recurrent = nn.LSTM(1, hidden, layers, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * hidden, 1)

    def ranks(self, scores: Tensor) -> Tensor:
        values = scale_to_range(scores).to(self.last.weight.dtype)
        states, _ = self.recurrent(values[:, :, None])
        ranks: Tensor = self.length * self.last(states)[:, :, 0]
        return ranks.to(scores.dtype)

    def train(self, mode: bool = True) -> Self:
        """Keep the LSTM in training mode, without which cuDNN has no gradients; its results do not depend on it."""
        super().train(mode)
        self.recurrent.train(True)
        return self

    def ranks_from_counts(self, scores: Tensor) -> Tensor:
        """Return `ranks`: counts have no closed form here."""
        return self.ranks(scores)

    def counting_parts(self) -> nn.Module:
        """Return the parts that `start_counting` sets to exact counts, which need no training: none."""
        return nn.Identity()

    @torch.no_grad()
    def start_counting(self) -> None:
        """Set weights with which a one-layer network counts, a better start of training than noise.

        Each unit of a half has a bin of scores: the candidate of its cell indicates a score above the middle of the
        bin, the cell sums these up, and pairs of output gates pass the cell whose bin contains the current score.
        The two directions count earlier and later scores; the bins of one are shifted by half a bin, so that the
        contribution of a score to its own count cancels. The last two units count all scores.
        """
        if self.recurrent.num_layers != 1:
            raise InvalidInput(
                "only an LSTM of one layer can start from counting; let it start from random weights"
            )
        hidden = self.recurrent.hidden_size
        bins = (hidden - 2) // 2
        used = 2 * bins
        width = 2.0 / (bins - 1.5)
        for suffix, shift in (("", width / 4), ("_reverse", 3 * width / 4)):
            edges = width * torch.arange(bins + 1) - 1 - shift
            middles = (edges[1:] + edges[:-1]) / 2
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            into, within, bias, other = (getattr(self.recurrent, f"{name}_l0{suffix}") for name in names)
            for weights in (into, within, bias, other):
                weights.zero_()
            inputs, forgets, candidate, outputs = bias.view(4, hidden)
            into_candidate, into_outputs = into.view(4, hidden)[2:]
            inputs.fill_(math.log(CELL_COUNT))
            for saturated in (forgets, candidate[used:], outputs[used:]):
                saturated.fill_(SATURATED)
            into_candidate[:used] = COUNTING_STEEPNESS / width
            candidate[:used] = -COUNTING_STEEPNESS / width * torch.cat([middles, middles])
            into_outputs[:used] = SELECTING_STEEPNESS / width
            outputs[:used] = -SELECTING_STEEPNESS / width * torch.cat([edges[:-1], edges[1:]])
            into_outputs[[0, used - 1]] = 0  # scores beyond the outer edges belong to the outer bins
            outputs[0], outputs[used - 1] = SATURATED, -SATURATED
        once = 0.5 / (CELL_COUNT * self.length)
        counters = torch.full((hidden - used,), once / (hidden - used))
        signs = torch.ones(bins)
        self.last.weight[0] = torch.cat([once * signs, -once * signs, counters] * 2)
        self.last.bias.zero_()


PADDING = -1.5  # below every score, so that padding ranks behind and leaves the other ranks unchanged
BIN_COUNT = 0.1  # contribution of a score to a bin
BLOCKS = 8
DEEPEST = 12
LONGEST = 243
EXAMPLES = 1000
STEEPNESS = 8.0  # scores in a bin that fade out over the width of one; more of it gives stairs without slopes


class Window(NamedTuple):
    """Kernel of a block, over a circle of positions."""

    size: int
    dilation: int


class CircularConvolution(nn.Conv1d):
    """Convolution over positions in a circle; the last weight of the kernel applies to the position itself."""

    def __init__(self, inputs: int, outputs: int, window: Window) -> None:
        super().__init__(inputs, outputs, window.size, dilation=window.dilation)
        self.padded = (window.size - 1) * window.dilation

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(
            functional.pad(input, (self.padded, 0), mode="circular") if self.padded else input
        )


class Block(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, inputs: int, outputs: int, window: Window) -> None:
        super().__init__()
        self.convolution = CircularConvolution(inputs, outputs, window)
        self.normalisation = nn.BatchNorm1d(outputs)

    def forward(self, input: Tensor) -> Tensor:
        return torch.relu(self.normalisation(self.convolution(input)))

    def make_identity(self, values: Tensor) -> Tensor:
        """Set the normalisation so that it changes nothing for the input `values`; return the block's output."""
        convolved = self.convolution(values)
        variance, mean = torch.var_mean(convolved, dim=(0, 2), correction=0)
        deviation = (variance + self.normalisation.eps).sqrt()
        names = ("running_mean", "running_var", "weight", "bias")
        for name, value in zip(names, (mean, variance, deviation, mean), strict=True):
            getattr(self.normalisation, name).copy_(value)
        return torch.relu(convolved)


class CnnSorter(Sorter):
    """Blocks of Conv1d, BatchNorm1d and ReLU, and an affine layer (Engilberge et al. 2019, fig. 3b).

    The paper has eight blocks, and does not specify kernels and channels. Ours: one block on single scores, five with
    kernels of 2 or 3 whose dilations multiply, so that each position sees every other exactly once, and two on single
    positions. Fewer scores than `length` are repeated as often as they fit, and padded with scores below all of them.

    Parameters
    ----------
    channels : int
        Width, even.
    length : int
        Most scores per vector, up to 243.
    blocks : int
        2 to 12, of which five in eight see other positions: the fewer, the larger their kernels.
    """

    name = "cnn"

    def __init__(self, channels: int = 64, length: int = 100, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.options = {"channels": channels, "length": length, "blocks": blocks}
        if channels < 8 or channels % 2 or not 2 <= length <= LONGEST:
            raise InvalidInput(
                f"a convolutional sorter needs an even number of channels of at least 8, length 2 to {LONGEST}"
            )
        if not 2 <= blocks <= DEEPEST:
            raise InvalidInput(f"a convolutional sorter has 2 to {DEEPEST} blocks, not {blocks}")
        self.longest = self.length = length
        wide = 5 * blocks // 8
        self.counting = 1 + wide  # blocks that count; the others read the counts
        windows = _windows(length, wide)
        self.positions = windows[-1].size * windows[-1].dilation
        single = Window(1, 1)
        every = (single, *windows, *(blocks - self.counting) * [single])
        self.blocks = nn.ModuleList(
            Block(1 if i == 0 else channels, channels, window) for i, window in enumerate(every)
        )
        self.last = nn.Conv1d(channels, 1, 1)

    def ranks(self, scores: Tensor) -> Tensor:
        values = self._padded(scores, self.length // scores.shape[1])
        for block in self.blocks[: self.counting]:
            values = block(values)
        return self._read(values, scores)

    def ranks_from_counts(self, scores: Tensor) -> Tensor:
        """Return `ranks` as after `start_counting`, but with the counts in closed form: a fraction of the time."""
        padded = self._padded(scores, self.length // scores.shape[1])[:, 0]
        channels = self.last.in_channels
        bins, width = _bins(channels)
        middles = torch.linspace(-1, 1, bins, device=scores.device)[:, None]
        values = padded.new_zeros(len(padded), channels, scores.shape[1])
        shares = (1 - (padded[:, None, :] - middles).abs() / width).clamp(min=0)
        values[:, :bins] = BIN_COUNT * shares.sum(dim=2, keepdim=True)
        values[:, bins + 2] = padded[:, : scores.shape[1]] - PADDING
        return self._read(values, scores)

    def _read(self, values: Tensor, scores: Tensor) -> Tensor:
        """Return the ranks of `scores` that the last blocks read from counts and current scores."""
        d = scores.shape[1]
        copies = self.length // d
        values = values[:, :, :d]
        for block in self.blocks[self.counting :]:
            values = block(values)
        among_copies: Tensor = self.length * self.last(values)[:, 0]
        return (1 + (among_copies - (copies + 1) / 2) / copies).to(scores.dtype)

    def _padded(self, scores: Tensor, copies: int) -> Tensor:
        values = scale_to_range(scores).to(self.last.weight.dtype).repeat(1, copies)
        return functional.pad(values, (0, self.positions - values.shape[1]), value=PADDING)[:, None, :]

    def counting_parts(self) -> nn.Module:
        """Return the blocks that `start_counting` sets to exact counts, which need no training."""
        return self.blocks[: self.counting]

    @torch.no_grad()
    def start_counting(self) -> None:
        """Set weights with which the network counts, a better start of training than noise.

        The first block compares each score with edges, the second turns that into membership in bins, and the next
        sum it up over all positions; the eighth passes the counts of the bins below the current score. Batch
        normalisation takes its statistics from scores like those of the training.
        """
        if len(self.blocks) != BLOCKS:
            raise InvalidInput(
                f"only a convolutional sorter of {BLOCKS} blocks can start from counting; "
                "let it start from random weights"
            )
        bins, width = _bins(self.last.in_channels)
        current = bins + 2  # channel of the current score; in the first block, those before it are the edges
        layers: list[Any] = [block.get_submodule("convolution") for block in self.blocks]
        last: Any = self.last
        for layer in (*layers, last):
            layer.weight.zero_()
            layer.bias.zero_()
        first, second, *sums, seventh, eighth = layers
        counted = torch.arange(bins)
        first.weight[: current + 1] = 1
        first.bias[:current] = 1 + width - width * torch.arange(current)
        first.bias[current] = -PADDING
        for edge, share in enumerate((1, -2, 1)):  # a triangle over two bins, from three hinges
            second.weight[counted, counted + edge] = share * BIN_COUNT / width
        for layer in sums:
            layer.weight[counted, counted] = 1
        for layer in (second, *sums):
            layer.weight[current, current, -1] = 1
        seventh.weight[counted, counted] = 1
        seventh.weight[counted + bins, current] = -1
        seventh.bias[counted + bins] = torch.linspace(-1, 1, bins) - PADDING
        eighth.weight[counted, counted] = 1
        eighth.weight[counted, counted + bins] = -STEEPNESS * BIN_COUNT / width
        eighth.weight[-1, :bins] = 1
        last.weight[0, :bins] = -1 / (BIN_COUNT * self.length)
        last.weight[0, -1] = 1 / (BIN_COUNT * self.length)
        last.bias.fill_(0.5 / self.length)
        values = self._padded(draw_scores(EXAMPLES, self.length, torch.Generator().manual_seed(0)), 1)
        for block in self.blocks:
            values = cast(Block, block).make_identity(values)


def _bins(channels: int) -> tuple[int, float]:
    """Return the number of bins that the channels can count, and their width."""
    bins = (channels - 2) // 2
    return bins, 2.0 / (bins - 1)


def _windows(length: int, blocks: int) -> list[Window]:
    """Return the kernels of so many wide blocks, over the smallest circle of at least `length` positions.

    Sizes differ by 1 at most and are at least 2.
    """
    sizes = [2] * blocks
    while math.prod(sizes) < length:
        sizes[sizes.index(min(sizes))] += 1
    return [Window(size, math.prod(sizes[:before])) for before, size in enumerate(sizes)]
