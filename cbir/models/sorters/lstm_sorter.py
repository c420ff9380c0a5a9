"""The recurrent sorter: a bidirectional LSTM and a linear layer."""

import math

import torch
from torch import Tensor, nn

from cbir.errors import InvalidInput
from cbir.models.sorters.score_scaling import scale_to_range
from cbir.models.sorters.sorter import Sorter

COUNT = 3e-4  # what one score adds to a cell, so that hundreds stay where tanh is straight
SATURATED = 12.0


class LstmSorter(Sorter):
    """Bidirectional LSTM over the scores, then one linear layer for all positions (Engilberge et al. 2019, fig. 3a).

    Takes any length; it is as good as its training only up to about the length trained for. `hidden` units in
    each direction, `layers` deep (the paper's code: 512 and 2).
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

    def train(self, mode: bool = True) -> "LstmSorter":
        """Always in training mode, without which cuDNN refuses gradients; nothing in here depends on it."""
        super().train(mode)
        self.recurrent.train(True)
        return self

    @torch.no_grad()
    def start_counting(self) -> None:
        """Weights with which a one-layer network counts, to start training from instead of from noise.

        Half of the units have a bin of scores each: the candidate of a cell says whether a score is above its middle,
        the cell sums that up, and pairs of output gates let pass the cell in whose bin the score at hand lies.
        The two directions count what came before and what comes after; the bins of one are shifted by half a bin,
        so that what a score adds by counting itself cancels. The last two units count all scores.
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
            writes, keeps, candidate, shows = bias.view(4, hidden)
            into_candidate, into_shows = into.view(4, hidden)[2:]
            writes.fill_(math.log(COUNT))
            for always in (keeps, candidate[used:], shows[used:]):
                always.fill_(SATURATED)
            into_candidate[:used] = 4 / width
            candidate[:used] = -4 / width * torch.cat([middles, middles])
            into_shows[:used] = 6 / width
            shows[:used] = -6 / width * torch.cat([edges[:-1], edges[1:]])
            into_shows[[0, used - 1]] = 0  # what lies beyond the outer edges belongs to the outer bins
            shows[0], shows[used - 1] = SATURATED, -SATURATED
        once = 0.5 / (COUNT * self.length)
        counters = torch.full((hidden - used,), once / (hidden - used))
        signs = torch.ones(bins)
        self.last.weight[0] = torch.cat([once * signs, -once * signs, counters] * 2)
        self.last.bias.zero_()
