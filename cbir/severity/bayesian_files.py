"""Loading of stored Bayesian rankers."""

from pathlib import Path
from typing import Any

import torch

from cbir.models.model_card import read_model_card
from cbir.models.model_files import load_weights
from cbir.severity.bayesian_network import BayesianNetwork
from cbir.severity.bayesian_ranker import CARD, WEIGHTS, BayesianRanker


def load_bayesian_ranker(folder: Path, device: str = "cpu") -> BayesianRanker:
    """Load the ranker in `folder` to `device`, ready for use.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
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
