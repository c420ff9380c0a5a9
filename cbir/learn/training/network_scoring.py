"""Scores and features of many pictures, batch by batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cbir.learn.models.scoring_network import ScoringNetwork
from cbir.system.device_failure import device_failures, full_precision, in_pieces, network_batch

BATCH = 256  # pictures, on a CPU


def to_network_input(pictures: NDArray[Any], device: str) -> Tensor:
    """Return what a network takes, float32 on `device`.

    `pictures` are grey, (n, height, width) uint8, or have colours, (n, height, width, 3): they become (n, channels,
    height, width) from 0 to 1. Values of an encoder, (n, d), stay as they are.
    """
    values = torch.from_numpy(pictures).to(device)
    if values.ndim == 2:
        return values.float()
    return (values[:, None] if values.ndim == 3 else values.permute(0, 3, 1, 2)).float() / 255.0


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
    pictures: NDArray[Any],
    device: str = "cpu",
    function: Callable[[Tensor], Tensor] | None = None,
) -> NDArray[np.float32]:
    """Apply a network to pictures in evaluation mode.

    Parameters
    ----------
    network : nn.Module
        Put into evaluation mode, and back.
    pictures : (n, height, width), (n, height, width, 3) or (n, d)
        See `to_network_input`.
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
    compute = function or network

    def run(rows: slice) -> NDArray[np.float32]:
        values: NDArray[np.float32] = compute(to_network_input(pictures[rows], device)).float().cpu().numpy()
        return values

    try:
        with full_precision(), device_failures("network", device):
            on_gpu = device != "cpu" and len(pictures)
            size = network_batch(to_network_input(pictures[:1], device).nbytes) if on_gpu else BATCH
            outputs = list(in_pieces(run, len(pictures), size))
    finally:
        network.train(was_training)
    return np.concatenate(outputs)
