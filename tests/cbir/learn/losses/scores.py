"""Scores and grades for the tests of losses."""

import math

import torch

from cbir.learn.models.sorters import HandcraftedSorter

torch.set_num_threads(1)  # the work is small, and other tests want the cores

GRADES = torch.tensor([[0, 1, 2, 0, 3], [1, 0, 0, 0, 2.0]])
PS = (1.0, 2.0, 8.0, 16.0, 32.0, 64.0, 1000.0, math.inf)
SMOOTH = HandcraftedSorter()


def scores_of(*shape, seed=0, type_=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(type_)


def softplus(z):
    return math.log1p(math.exp(-abs(z))) + max(z, 0)
