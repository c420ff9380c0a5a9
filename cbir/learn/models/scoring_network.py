"""Network with one score for each picture: its files, and how pictures pass through it and other networks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cbir.descriptors.networks.backbones import build_backbone
from cbir.descriptors.networks.model_card import read_model_card
from cbir.descriptors.networks.model_files import load_weights, save_model
from cbir.errors import InvalidInput
from cbir.system.device_failure import device_failures, full_precision, in_pieces, network_batch

WEIGHTS, CARD = "ranker.safetensors", "ranker.json"
SIDES = (32, 1024)


class ScoringNetwork(nn.Module):
    """Map grey images (n, 1, side, side), float32 from 0 to 1, to unbounded scores (n,).

    Parameters
    ----------
    backbone : str
        A name from `cbir.descriptors.networks.backbones.names()`; a linear layer follows it.
    side : int
        Height and width of an image in pixels.
    weights : str, optional
        Initial weights: a file, or the folder of an embedding.

    Raises
    ------
    InvalidInput, NotFound
        See `build_backbone`.
    """

    def __init__(self, backbone: str = "toprank", side: int = 64, weights: str | None = None) -> None:
        super().__init__()
        self.options = {"backbone": backbone, "side": side}
        self.side = side
        self.backbone = build_backbone(backbone, dimensions=None, weights=weights)
        self.head = nn.Linear(self.backbone.features, 1)

    def features(self, images: Tensor) -> Tensor:
        """Return the input (n, k) of the last layer for `images`."""
        return cast(Tensor, self.backbone(images))

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.features(images))[:, 0])


def save_scoring_network(network: ScoringNetwork, folder: Path, facts: dict[str, Any]) -> None:
    """Write the weights and the card of a scoring network.

    Parameters
    ----------
    network : ScoringNetwork
        The network.
    folder : Path
        Existing folder to write to.
    facts : dict
        Further fields of the card.
    """
    save_model(network, folder / WEIGHTS, folder / CARD, {"ranker": network.options, **facts})


def load_scoring_network(folder: Path) -> tuple[ScoringNetwork, dict[str, Any]]:
    """Load the network in `folder`, in evaluation mode, and its card.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    command = f"`cbir train ranker --out {folder}`"
    card = read_model_card(folder / CARD, "a ranker", command, _is_ranker_card)
    network = load_weights(folder / WEIGHTS, card["sha256"], lambda: ScoringNetwork(**card["ranker"]))
    return network.eval(), card


def highest_negative_score(card: dict[str, Any]) -> float:
    """Return the highest score of a negative in validation and test, from a network's card.

    Pos@Top counts the positives above it. Raises InvalidInput if the card has no such scores.
    """
    try:
        return max(float(card["results"][part]["highest_negative"]) for part in ("validation", "test"))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{CARD} has no scores of negatives; train the ranker again") from error


def negative_scores(card: dict[str, Any]) -> list[float]:
    """Return scores of negatives of the test, from a network's card; raise InvalidInput if it has none."""
    try:
        scores = [float(score) for score in card["negative_scores"]]
        if not scores or not np.isfinite(scores).all():
            raise ValueError
        return scores
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{CARD} has no scores of the test's negatives; train the ranker again") from error


def _is_ranker_card(card: Any) -> bool:
    options = card["ranker"]
    has_texts = isinstance(options["backbone"], str) and isinstance(card["sha256"], str)
    return has_texts and isinstance(options["side"], int) and SIDES[0] <= options["side"] <= SIDES[1]


BATCH = 256  # pictures of a pass on a CPU, at most
BATCH_BYTES = 4 << 20  # of them, at most: more leave the cache


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
            size_of_one = max(1, to_network_input(pictures[:1], device).nbytes)
            on_gpu = device != "cpu" and len(pictures)
            size = network_batch(size_of_one) if on_gpu else max(1, min(BATCH, BATCH_BYTES // size_of_one))
            outputs = list(in_pieces(run, len(pictures), size))
    finally:
        network.train(was_training)
    return np.concatenate(outputs)
