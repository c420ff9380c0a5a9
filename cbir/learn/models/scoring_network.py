"""Scoring networks: one score per image, higher for images like the positives in training; and their folders."""

from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from cbir.descriptors.networks.backbones import build_backbone
from cbir.descriptors.networks.model_card import read_model_card
from cbir.descriptors.networks.model_files import load_weights, save_model
from cbir.errors import InvalidInput

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


def _is_ranker_card(card: Any) -> bool:
    options = card["ranker"]
    has_texts = isinstance(options["backbone"], str) and isinstance(card["sha256"], str)
    return has_texts and isinstance(options["side"], int) and SIDES[0] <= options["side"] <= SIDES[1]
