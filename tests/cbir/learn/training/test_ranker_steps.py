"""What a step of a ranker's training does, on an encoder's values: rate, momentum, parallel loss, best epoch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cbir.evaluation.rank_metrics import auc, pos_at_top
from cbir.learn.losses import TopRankLoss
from cbir.learn.losses.score_losses import AbsoluteErrorLoss
from cbir.learn.models.linear_rankers import RankingSVM, TopPush
from cbir.learn.models.scoring_network import ScoringNetwork
from cbir.learn.training.loss_options import LossOptions
from cbir.learn.training.ranker_training import (
    PENALTIES,
    POWERS,
    RankerImages,
    RankerRecipe,
    RunOptions,
    _RankerRun,
    recipe_loss,
    refit_last_layer,
    train_ranker,
)

TRAINING, VALIDATION = np.arange(60), np.arange(60, 100)
PARTS = {"training": TRAINING, "validation": VALIDATION}


class ValueScores(ScoringNetwork):
    """A linear layer on values."""

    def __init__(self, values: int) -> None:
        super().__init__("toprank", 32)
        self.backbone = nn.Identity()
        torch.manual_seed(0)
        self.head = nn.Linear(values, 1)


def images_of(seed: int = 0, values: int = 4, signal: float = 1.0) -> RankerImages:
    random = np.random.default_rng(seed)
    positive = np.arange(100) % 5 == 0
    drawn = random.standard_normal((100, values)) + signal * positive[:, None]
    return RankerImages(drawn.astype(np.float32), positive, PARTS)


def run_of(folder: Path, **options: object) -> _RankerRun:
    recipe = RankerRecipe(**{"positives": 4, "negatives": 12, "epochs": 3, **options})  # type: ignore[arg-type]
    return _RankerRun(ValueScores(4), images_of(), recipe, RunOptions(folder))


@pytest.mark.parametrize(("method", "factor"), [("toprank", 1), ("cross-entropy", 1), ("focal", 5)])
def test_the_first_epoch_has_the_rate_and_each_later_one_a_share_of_it(
    method: str, factor: int, tmp_path: Path
) -> None:
    run = run_of(tmp_path, method=method, rate=0.01, decay=0.9)
    length = len(run.sampler)
    rates = [run.rate(step) for step in (0, length - 1, length, 2 * length)]
    assert rates == pytest.approx([factor * rate for rate in (0.01, 0.01, 0.009, 0.0081)])


def test_descent_is_stochastic_with_nesterov_momentum(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert isinstance(run.optimizer, torch.optim.SGD)
    group = run.optimizer.param_groups[0]
    assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, True, 0)


def test_the_parallel_loss_is_added_in_its_epochs_alone(tmp_path: Path) -> None:
    run = run_of(tmp_path, options=LossOptions(p=8.0, parallel="l1", parallel_epochs=2))
    rows = np.arange(16)
    values, relevance = torch.from_numpy(run.pictures[rows]), torch.from_numpy(run.positive[rows])
    scores = run.ranker(values).detach()
    alone = float(TopRankLoss(8.0)(scores, relevance))
    both = alone + float(AbsoluteErrorLoss()(scores, relevance))
    length, losses = len(run.sampler), []
    for run.step in (0, 2 * length - 1, 2 * length):
        losses.append(float(run.batch_loss(values, rows).detach()))
    assert losses == pytest.approx([both, both, alone])


def test_epochs_are_compared_by_pos_at_top_then_auc(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    scores = run.ranker(torch.from_numpy(run.pictures[VALIDATION])).detach().numpy()
    top, area = pos_at_top(scores, run.positive[VALIDATION]), auc(scores, run.positive[VALIDATION])
    assert top != area
    measures, comparable = run.validate()
    assert measures == {"pos_at_top": pytest.approx(top), "auc": pytest.approx(area)}
    assert comparable == pytest.approx((top, area))


def test_the_result_is_the_best_epoch(tmp_path: Path) -> None:
    network, images = ValueScores(4), images_of(3, signal=0.5)
    recipe = RankerRecipe(positives=4, negatives=12, epochs=6, rate=0.5)
    outcome = train_ranker(network, images, recipe, RunOptions(tmp_path))
    measures = [(row["pos_at_top"], row["auc"]) for row in outcome["history"]]
    assert outcome["best_epoch"] == 1 + measures.index(max(measures)) < 6, "and not the last"
    scores = network(torch.from_numpy(images.pictures[VALIDATION])).detach().numpy()
    assert pos_at_top(scores, images.positive[VALIDATION]) == pytest.approx(max(measures)[0])


@pytest.mark.parametrize(("method", "linear"), [("rank-svm", RankingSVM), ("top-push", TopPush)])
def test_the_last_layer_has_the_penalty_of_the_best_pos_at_top_then_auc(
    method: str, linear: type[RankingSVM] | type[TopPush]
) -> None:
    """Section 4.3 of Zheng et al.; the images are such that the best AUC is that of another penalty."""
    images, network = images_of(SEEDS[method], values=12, signal=0.4), ValueScores(12)
    penalty = refit_last_layer(method, network, *images)
    measures = {}
    for tried in PENALTIES:
        fitted = linear(tried).fit(images.pictures[TRAINING], images.positive[TRAINING].astype(int))
        scores = fitted.predict(images.pictures[VALIDATION])
        measures[tried] = (
            pos_at_top(scores, images.positive[VALIDATION]),
            auc(scores, images.positive[VALIDATION]),
        )
        if tried == penalty:
            refitted = network(torch.from_numpy(images.pictures[VALIDATION])).detach().numpy()
            np.testing.assert_allclose(refitted, scores, rtol=1e-3, atol=1e-3)
    assert measures[penalty] == max(measures.values())
    assert measures[penalty][1] < max(area for _, area in measures.values())


SEEDS = {"rank-svm": 52, "top-push": 1}


def test_powers_and_penalties_are_those_of_the_paper() -> None:
    """Zheng et al., section 4.3: p is 2 to 64, the penalties are 0.01 to 100."""
    assert tuple(2.0**exponent for exponent in range(1, 7)) == POWERS
    assert tuple(10.0**exponent for exponent in range(-2, 3)) == PENALTIES


def test_cross_entropy_weighs_both_kinds_alike_and_images_by_1_on_average() -> None:
    """Zheng et al.: negatives and positives as m : n, of m positives and n negatives in training."""
    positive = np.arange(50) < 10
    scores = torch.linspace(-2, 3, 50, dtype=torch.float64)
    found = recipe_loss(RankerRecipe(method="cross-entropy"), positive)(scores, torch.from_numpy(positive))
    logs = [np.log1p(np.exp(-s if p else s)) for s, p in zip(scores.tolist(), positive, strict=True)]
    expected = (np.mean(logs[:10]) + np.mean(logs[10:])) / 2
    assert float(found) == pytest.approx(expected)


def test_focal_loss_has_the_papers_weights_whatever_the_images() -> None:
    """Zheng et al., section 5.4: gamma 2; 0.75 for negatives, 0.25 for positives."""
    scores, positive = torch.tensor([0.5, -1.5], dtype=torch.float64), np.array([True, False])
    found = recipe_loss(RankerRecipe(method="focal"), np.arange(50) < 10)(scores, torch.from_numpy(positive))
    right = 1 / (1 + np.exp([-0.5, -1.5]))
    assert float(found) == pytest.approx(np.mean([0.25, 0.75] * -((1 - right) ** 2) * np.log(right)))
