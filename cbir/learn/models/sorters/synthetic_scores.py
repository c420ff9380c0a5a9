"""Random scores to train sorters on."""

import torch
from torch import Tensor

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
