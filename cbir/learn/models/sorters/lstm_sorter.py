"""Recurrent sorter: a bidirectional LSTM and a linear layer."""

import math
from typing import Self

import torch
from torch import Tensor, nn

from cbir.errors import InvalidInput
from cbir.learn.models.sorters.score_scaling import scale_to_range
from cbir.learn.models.sorters.sorter import Sorter

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
