"""The choice of TopRank's p by validation."""

import numpy as np
import pytest
import torch

from cbir.evaluation.rank_metrics import auc, pos_at_top
from cbir.learn.models.scoring_network import ScoringNetwork, score_pictures
from cbir.learn.training.loss_options import LossOptions
from cbir.learn.training.ranker_folder import chooses_power, train_every_power
from cbir.learn.training.ranker_training import POWERS, RankerImages, RankerRecipe, RunOptions, train_ranker

RECIPE = RankerRecipe(epochs=1, positives=4, negatives=20, rate=0.05, augment=False)


@pytest.fixture(scope="module")
def noise():
    """Pictures without anything to learn, so that each p ends with other scores."""
    pictures = np.random.default_rng(0).integers(0, 256, (80, 32, 32), dtype=np.uint8)
    parts = {"training": np.arange(48), "validation": np.arange(48, 80)}
    return RankerImages(pictures, np.arange(80) % 4 == 0, parts)


def new_network():
    torch.manual_seed(0)
    return ScoringNetwork("toprank", 32)


@pytest.fixture(scope="module")
def chosen(noise, tmp_path_factory):
    network = new_network()
    return network, train_every_power(network, noise, RECIPE, RunOptions(tmp_path_factory.mktemp("powers")))


def test_the_best_on_validation_is_kept(noise, chosen):
    pictures, positive, parts = noise
    network, outcome = chosen
    measures = [(row["pos_at_top"], row["auc"]) for row in outcome["powers"]]
    assert len(set(measures)) > 1
    assert [row["p"] for row in outcome["powers"]] == list(POWERS)
    assert outcome["p"] == POWERS[measures.index(max(measures))]
    rows = parts["validation"]
    scores = score_pictures(network, pictures[rows], "cpu")
    assert (pos_at_top(scores, positive[rows]), auc(scores, positive[rows])) == pytest.approx(max(measures))


def test_each_training_starts_from_the_given_weights(noise, chosen, tmp_path):
    recipe = RankerRecipe(**{**vars(RECIPE), "options": LossOptions(p=POWERS[-1])})
    alone = train_ranker(new_network(), noise, recipe, RunOptions(tmp_path))
    assert alone["history"][0]["auc"] == pytest.approx(chosen[1]["powers"][-1]["auc"])


def test_a_p_of_ones_own_is_not_chosen():
    assert chooses_power(RankerRecipe())
    assert not chooses_power(RankerRecipe(options=LossOptions(p=16.0)))
    assert not chooses_power(RankerRecipe("pos-at-top"))
