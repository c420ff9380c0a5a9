"""Severity rankers on disk: weights as safetensors, and a card."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cbir.models.model_card import read_model_card
from cbir.models.model_files import load_weights, save_model
from cbir.severity.bayesian_network import BayesianNetwork

if TYPE_CHECKING:
    from cbir.severity.bayesian_ranker import BayesianRanker

WEIGHTS, CARD = "severity.safetensors", "severity.json"


def save_bayesian_ranker(ranker: "BayesianRanker", folder: Path, facts: dict[str, Any]) -> None:
    """Write the weights and the card of a fitted ranker.

    Parameters
    ----------
    ranker : BayesianRanker
        Fitted.
    folder : Path
        Created if missing.
    facts : dict
        Further fields of the card.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = ranker.settings()
    settings.pop("weights")  # a path of this computer
    card = {"ranker": settings, "calibrated": ranker.calibrated_, **facts}
    save_model(ranker.network_, folder / WEIGHTS, folder / CARD, card)


def load_bayesian_ranker(folder: Path, device: str = "cpu") -> "BayesianRanker":
    """Load the ranker in `folder` to `device`, ready for use.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    from cbir.severity.bayesian_ranker import BayesianRanker

    command = f"`cbir annotate simulate --out {folder}`"
    card = read_model_card(folder / CARD, "a ranker", command, _is_severity_card)

    def build() -> BayesianNetwork:
        settings = BayesianRanker(**card["ranker"])
        return BayesianNetwork(settings.backbone, settings.dropout)

    network = load_weights(folder / WEIGHTS, card["sha256"], build)
    ranker = BayesianRanker(**card["ranker"], device=device)
    ranker.network_ = network.to(device).to(memory_format=torch.channels_last).eval()
    ranker.calibrated_ = card["calibrated"]
    return ranker


def _is_severity_card(card: Any) -> bool:
    return (
        isinstance(card["ranker"], dict)
        and isinstance(card["sha256"], str)
        and isinstance(card["calibrated"], bool)
    )
