"""Scores and features of many images, some at a time."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.models.scoring_network import ScoringNetwork

AT_ONCE = 256


def to_network_input(pictures: NDArray[np.uint8], device: str) -> Tensor:
    """(n, 1, height, width) float32 from 0 to 1, of grey pictures (n, height, width)."""
    return torch.from_numpy(pictures).to(device)[:, None].float() / 255.0


def score_pictures(ranker: ScoringNetwork, pictures: NDArray[np.uint8], device: str = "cpu") -> NDArray[np.float64]:
    """Scores (n,) of grey pictures (n, side, side)."""
    return _map(ranker, pictures, device)[:, 0]


def picture_features(ranker: ScoringNetwork, pictures: NDArray[np.uint8], device: str = "cpu") -> NDArray[np.float64]:
    """What the ranker's head sees (n, k) of grey pictures (n, side, side)."""
    return _map(ranker, pictures, device, of_head=False)


@torch.no_grad()
def _map(
    ranker: ScoringNetwork, pictures: NDArray[np.uint8], device: str, of_head: bool = True
) -> NDArray[np.float64]:
    was_training = ranker.training
    ranker.eval()
    found = []
    for start in range(0, len(pictures), AT_ONCE):
        images = to_network_input(pictures[start : start + AT_ONCE], device)
        values = ranker(images)[:, None] if of_head else ranker.features(images)
        found.append(values.double().cpu().numpy())
    ranker.train(was_training)
    return np.concatenate(found)
