"""Rankers of severity on disk: weights, and a card with the settings."""

from pathlib import Path
from typing import Any

from cbir.descriptors.networks.model_card import read_model_card
from cbir.descriptors.networks.model_files import load_weights
from cbir.learn.severity.bayesian_network import BayesianNetwork
from cbir.learn.severity.bayesian_ranker import BayesianRanker
from cbir.learn.severity.sampled_network import SampledNetwork
from cbir.learn.severity.sampled_ranker import CARD, WEIGHTS, SampledRanker
from cbir.learn.severity.value_network import ValueNetwork
from cbir.learn.severity.value_ranker import ValueRanker


def load_severity_ranker(folder: Path, device: str = "cpu") -> SampledRanker:
    """Load the ranker in `folder` to `device`, ready for use.

    Raises NotFound if there is none, InvalidInput if weights and card do not match.
    """
    command = f"`cbir annotate simulate --out {folder}`"
    card = read_model_card(folder / CARD, "a ranker", command, _is_severity_card)
    settings = card["ranker"]
    kind = ValueRanker if "descriptor" in settings else BayesianRanker

    def build() -> SampledNetwork:
        ranker = kind(**settings)
        if isinstance(ranker, ValueRanker):
            return ValueNetwork(int(card["values"]), ranker.directions, ranker.hidden, ranker.dropout)
        return BayesianNetwork(ranker.backbone, ranker.dropout)

    network = load_weights(folder / WEIGHTS, card["sha256"], build)
    ranker: SampledRanker = kind(**settings, device=device)
    ranker.network_ = ranker.to_device(network).eval()
    ranker.calibrated_ = card["calibrated"]
    return ranker


def _is_severity_card(card: Any) -> bool:
    kinds = {"ranker": dict, "sha256": str, "calibrated": bool}
    return all(isinstance(card[name], kind) for name, kind in kinds.items())
