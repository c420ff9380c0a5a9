"""What a ranker minimises: eq. 2 and 4 of Kadota et al. with one sample of the weights per pair, and weight decay."""

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from cbir.learn.severity.judged_pairs import JudgedPairs, check_judged_pairs
from cbir.learn.severity.severity_networks import UnitDropout
from cbir.learn.severity.severity_rankers import BayesianRanker, ValueRanker
from tests.service.features.annotate.active.drawn import judged

GRADES = np.arange(60) % 4.0
_RANDOM = np.random.default_rng(5)
VALUES = _RANDOM.normal(size=(60, 20)).astype(np.float32)
VALUES[:, :3] += GRADES[:, None].astype(np.float32)
PAIRS, LABELS = judged(GRADES[:50], 90)


def fit(grades: np.ndarray | None = None, **options: float) -> ValueRanker:
    settings = {"directions": 16, "hidden": 8, "passes": 4, "steps": 60, **options}
    return ValueRanker(**settings).fit(VALUES, PAIRS, LABELS, grades)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ranker() -> ValueRanker:
    return fit(np.where(np.arange(60) % 3, GRADES, np.nan), dropout=0.4)


def slow_loss(ranker: ValueRanker, pairs: JudgedPairs, rows: list[int], masks: list[np.ndarray]) -> float:
    """Sum the loss pair by pair and image by image, in numpy; the sample of a pair's weights is its masks."""
    state = {name: value.numpy() for name, value in ranker.network_.state_dict().items()}
    projection, hidden, head = (value for name, value in state.items() if name.endswith("weight"))
    shift, hidden_bias, head_bias = (value for name, value in state.items() if name.endswith("bias"))
    total = 0.0
    for number, row in enumerate(rows):
        scores = []
        for image in pairs.pairs[row]:
            units = hidden @ ((projection @ VALUES[image] + shift) * masks[0][number]) + hidden_bias
            scores.append((head @ (np.maximum(units, 0) * masks[1][number]) + head_bias).item())
            if not np.isnan(pairs.grades[image]):
                total += (scores[-1] - pairs.grades[image]) ** 2
        first_wins = 1 / (1 + np.exp(scores[1] - scores[0]))
        label = pairs.labels[row]
        total -= label * np.log(first_wins) + (1 - label) * np.log(1 - first_wins)
    return total / len(rows)


def test_loss_is_that_of_the_paper_with_one_sample_per_pair(ranker: ValueRanker) -> None:
    grades = np.where(np.arange(60) % 3, GRADES, np.nan)
    pairs, rows = check_judged_pairs(60, PAIRS, LABELS, grades), np.array([3, 5, 8, 13, 95])
    masks = [mask.numpy() for mask in ranker.network_.masks(5, torch.Generator().manual_seed(9))]
    assert (np.concatenate(masks, axis=1) == 0).mean() == pytest.approx(0.4, abs=0.15)
    with torch.no_grad():
        found = ranker._loss(ranker.fixed_part(VALUES), pairs, rows, torch.Generator().manual_seed(9))
    assert found.item() == pytest.approx(slow_loss(ranker, pairs, rows.tolist(), masks), rel=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_masks_keep_the_mean_of_a_unit(share: float) -> None:
    """Eq. 9 with the scaling of Gal & Ghahramani 2016: without it, passes would expect smaller scores."""
    masks = UnitDropout(50, share).draw(2000, torch.Generator().manual_seed(0)).double()
    assert masks.max().item() == pytest.approx(1 / (1 - share))
    assert float((masks == 0).double().mean()) == pytest.approx(share, abs=0.01)
    assert float(masks.mean()) == pytest.approx(1, abs=0.02)


def test_weight_decay_makes_weights_smaller() -> None:
    norms = []
    for decay in (0.0, 0.3):
        state = fit(weight_decay=decay).network_.state_dict()
        norms.append(sum(float(state[name].norm()) for name in ("layers.1.1.weight", "head.1.weight")))
    assert norms[1] < 0.75 * norms[0]
    assert (BayesianRanker().weight_decay, ValueRanker().weight_decay) == (1e-4, 3e-2)


def test_decay_is_twice_lambda_and_spares_biases(ranker: ValueRanker) -> None:
    """The gradient of lambda ||W||^2 is 2 lambda W."""
    from cbir.learn.severity.sampled_ranker import _parameter_groups

    of_weights, of_others = _parameter_groups(ranker.network_, 0.25)
    assert (of_weights["weight_decay"], of_others["weight_decay"]) == (0.5, 0.0)
    assert {parameter.ndim for parameter in of_others["params"]} == {1}


def test_a_graded_image_in_no_pair_is_learnt_from() -> None:
    """Nothing but the image itself says that it is far above all others; 55 to 59 are in no pair."""
    grades = np.where(np.arange(60) < 50, GRADES, np.nan)
    without = fit(grades).severity(VALUES[59:]).mean[0]
    grades[59] = 15.0
    assert without < 5
    assert fit(grades, dropout=0.0, weight_decay=0.0, steps=300, rate=0.02).severity(VALUES[59:]).mean[0] > 10


def test_each_pass_has_all_pairs_in_another_order() -> None:
    from cbir.learn.severity.sampled_ranker import _batches

    batches = _batches(23, 3, torch.Generator().manual_seed(0))
    passes = [[next(batches) for _ in range(3)] for _ in range(2)]
    assert [len(rows) for rows in passes[0]] == [8, 8, 7]
    first, second = (np.concatenate(rows).tolist() for rows in passes)
    assert sorted(first) == sorted(second) == list(range(23))
    assert len({tuple(first), tuple(second), tuple(range(23))}) == 3


def test_the_mean_is_that_of_the_known_grades() -> None:
    grades = np.array([0.0, np.nan, 0.0, 5.0])
    assert check_judged_pairs(4, [[0, 1]], [1.0], grades).mean_grade == pytest.approx(5 / 3)


def test_scores_start_at_the_mean_grade() -> None:
    """Eq. 4 pulls them there anyway, but from 0 a few steps would not be enough."""
    grades = np.where(np.arange(60) % 3, GRADES + 50, np.nan)
    made = fit(grades, steps=0, epochs=1, rate=1e-7, dropout=0.0)
    assert made.severity(VALUES).mean.mean() == pytest.approx(np.nanmean(grades), abs=2)
    assert abs(fit(steps=0, epochs=1, rate=1e-7).severity(VALUES).mean.mean()) < 2


def test_another_value_of_a_setting_gives_another_severity() -> None:
    short: dict[str, float] = {"steps": 5, "epochs": 1}
    plain = fit(**short).severity(VALUES).mean
    others: dict[str, float] = {
        "dropout": 0.5, "passes": 8, "weight_decay": 1.0, "epochs": 3, "steps": 20, "rate": 1e-2, "batch": 8,
        "seed": 1, "directions": 4, "hidden": 4,
    }  # fmt: skip
    for name, value in others.items():
        assert not np.array_equal(fit(**{**short, name: value}).severity(VALUES).mean, plain), name


def test_first_weights_are_drawn_by_the_seed() -> None:
    """Without dropout, and with steps too short to matter, nothing else depends on it."""
    one, same, other = (
        fit(seed=seed, steps=0, epochs=1, rate=1e-9, dropout=0.0).severity(VALUES).mean for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.1


def test_passes_are_sampled_by_the_seed() -> None:
    made = fit(steps=5, epochs=1)
    before = made.severity(VALUES).mean
    np.testing.assert_array_equal(made.severity(VALUES).mean, before)
    made.seed = 7
    assert not np.array_equal(made.severity(VALUES).mean, before)


def test_the_rate_rises_to_its_maximum_and_falls_to_nothing() -> None:
    rates: list[float] = []
    hook = register_optimizer_step_post_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    try:
        fit(rate=0.01, steps=40, epochs=1)
    finally:
        hook.remove()
    highest = int(np.argmax(rates))
    assert max(rates) == pytest.approx(0.01, rel=0.01)
    assert 0 < highest < len(rates) - 1
    assert max(rates[0], rates[-1]) < 0.001
