"""Scores and features of many pictures, batch by batch."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cbir.models.scoring_network import ScoringNetwork

BATCH = 256


def to_network_input(pictures: NDArray[np.uint8], device: str) -> Tensor:
    """Return grey pictures (n, height, width) as (n, 1, height, width) float32 from 0 to 1 on `device`."""
    return torch.from_numpy(pictures).to(device)[:, None].float() / 255.0


def score_pictures(
    network: ScoringNetwork, pictures: NDArray[np.uint8], device: str = "cpu"
) -> NDArray[np.float64]:
    """Score pictures.

    Parameters
    ----------
    network : ScoringNetwork
        On `device`.
    pictures : (n, side, side) uint8
        Grey pictures.
    device : str
        cpu or cuda.

    Returns
    -------
    (n,) float64
    """
    return apply_network(network, pictures, device).astype(np.float64)


def picture_features(
    network: ScoringNetwork, pictures: NDArray[np.uint8], device: str = "cpu"
) -> NDArray[np.float64]:
    """Compute the input of the network's last layer.

    Parameters
    ----------
    network : ScoringNetwork
        On `device`.
    pictures : (n, side, side) uint8
        Grey pictures.
    device : str
        cpu or cuda.

    Returns
    -------
    (n, k) float64
    """
    return apply_network(network, pictures, device, network.features).astype(np.float64)


@torch.no_grad()
def apply_network(
    network: nn.Module,
    pictures: NDArray[np.uint8],
    device: str = "cpu",
    function: Callable[[Tensor], Tensor] | None = None,
) -> NDArray[np.float32]:
    """Apply a network to pictures in evaluation mode.

    Parameters
    ----------
    network : nn.Module
        Put into evaluation mode, and back.
    pictures : (n, height, width) uint8
        Grey pictures.
    device : str
        cpu or cuda.
    function : callable, optional
        A method of the network, in place of `forward`.

    Returns
    -------
    (n, ...) float32
    """
    was_training = network.training
    network.eval()
    batches = (pictures[start : start + BATCH] for start in range(0, len(pictures), BATCH))
    function = function or network
    outputs = [function(to_network_input(batch, device)).float().cpu().numpy() for batch in batches]
    network.train(was_training)
    return np.concatenate(outputs)
