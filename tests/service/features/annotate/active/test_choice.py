"""The pairs to ask next: no pair twice, every chosen image in one, and an end when all are asked."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cbir.errors import InvalidInput
from cbir.learn.losses import ranknet_loss
from cbir.learn.severity.judged_pairs import SeverityEstimate
from service.features.annotate.active import strategies
from service.features.annotate.active.candidate_pool import CandidatePool, severity_bins, take_turns
from service.features.annotate.active.diverse_selection import (
    PairGradients,
    _sparsity,
    spread_pairs,
    typical_images,
)
from service.features.annotate.active.pair_selection import (
    first_pairs,
    select_pairs,
    share_of,
    starting_pairs,
)
from service.features.annotate.active.strategies import farthest, information

EVERY = pytest.mark.parametrize("strategy", strategies.names())


def severity(count, seed=0, alike=False, scores=True):
    random = np.random.default_rng(seed)
    drawn = np.ones((12, count), np.float32) if alike else random.normal(size=(12, count)).astype(np.float32)
    features = np.ones((count, 3), np.float32) if alike else random.normal(size=(count, 3)).astype(np.float32)
    passes = drawn if scores else None
    return SeverityEstimate(drawn.mean(axis=0), drawn.var(axis=0), features, passes, features[:, ::-1])


def rng(seed=0):
    return np.random.default_rng(seed)


def unordered(pairs):
    return [tuple(sorted(pair)) for pair in np.asarray(pairs).tolist()]


@settings(max_examples=60, deadline=None)
@given(
    strategy=st.sampled_from(strategies.names()),
    count=st.integers(2, 14),
    share=st.one_of(st.floats(0.01, 1), st.integers(0, 20)),
    seed=st.integers(0, 99),
    alike=st.booleans(),
    scores=st.booleans(),
    data=st.data(),
)
def test_pairs_are_new_and_of_allowed_images_until_all_are_asked(
    strategy, count, share, seed, alike, scores, data
):
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    every = list(combinations(range(count), 2))
    asked = {
        pair[:: data.draw(st.sampled_from([1, -1]))] for pair in data.draw(st.sets(st.sampled_from(every)))
    }
    known = {tuple(sorted(pair)) for pair in asked}
    open_pairs = {pair for pair in every if allowed[list(pair)].all()} - known
    for _ in range(2 * len(every)):
        found = select_pairs(strategy, severity(count, seed, alike, scores), asked, share, rng(seed), allowed)
        assert found.shape == (len(found), 2)
        assert found.dtype == np.int64
        assert len(set(unordered(found))) == len(found)
        assert set(unordered(found)) <= open_pairs
        if not len(found):
            break
        open_pairs -= set(unordered(found))
        asked |= {tuple(pair) for pair in found.tolist()}
    if share_of(share, int(allowed.sum())) >= 2:
        assert not open_pairs


@EVERY
def test_about_as_many_pairs_as_images_are_chosen(strategy):
    found = select_pairs(strategy, severity(200), set(), 0.1, rng())
    assert len(found) == 20
    if issubclass(type(strategies.strategy(strategy)), strategies.ImageStrategy):
        assert len(np.unique(found)) == 20


def test_new_images_are_each_shown_once_before_any_is_shown_again():
    first = starting_pairs("new-images", 101, 0.2, rng())
    assert first.shape == (21, 2)
    assert len(np.unique(first)) == 42
    second = select_pairs("new-images", None, first.tolist(), 0.3, rng(1), np.ones(101, bool))
    times = np.bincount(np.concatenate([first, second]).ravel(), minlength=101)
    assert (len(second), times.min(), times.max()) == (31, 1, 2)
    assert (times == 2).sum() == 3  # 104 places for 101 images


def test_other_strategies_start_as_in_the_paper():
    np.testing.assert_array_equal(
        starting_pairs("random", 50, 0.2, rng(3)), first_pairs(50, 0.2, None, rng(3))
    )
    with pytest.raises(InvalidInput, match="there is one"):
        starting_pairs("new-images", 1, 0.2, rng())


@EVERY
def test_the_same_generator_chooses_the_same(strategy):
    one, other = (select_pairs(strategy, severity(50), {(0, 1)}, 10, rng(4)) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@EVERY
def test_who_comes_first_is_by_chance(strategy):
    found = select_pairs(strategy, severity(400), set(), 200, rng())
    assert 60 < (found[:, 0] < found[:, 1]).sum() < 140


@EVERY
def test_ties_are_broken_by_chance(strategy):
    alike = severity(40, alike=True)
    chosen = {tuple(np.unique(select_pairs(strategy, alike, set(), 4, rng(seed)))) for seed in range(5)}
    assert len(chosen) > 1


@EVERY
def test_nothing_to_choose_from(strategy):
    none = np.zeros(5, bool)
    one = np.arange(5) == 3
    for allowed in (none, one):
        assert select_pairs(strategy, severity(5), set(), 1.0, rng(), allowed).shape == (0, 2)
    assert select_pairs(strategy, severity(5), set(), 0, rng()).shape == (0, 2)
    assert select_pairs(strategy, severity(0), set(), 0.5, rng()).shape == (0, 2)


@EVERY
@pytest.mark.parametrize("count", [30, 60, 90])
def test_an_image_is_chosen_once(strategy, count):
    member = strategies.strategy(strategy)
    if isinstance(member, strategies.ImageStrategy):  # the others choose pairs
        images = member.images(CandidatePool(60, severity(60), (), None), count, rng())
        assert len(images) == len(np.unique(images)) == min(count, 60)


def test_a_share_is_of_the_allowed_images():
    found = select_pairs("variance", severity(100), set(), 0.25, rng(), np.arange(100) < 40)
    assert len(np.unique(found)) == 10


def test_variance_takes_the_most_uncertain():
    known = severity(100)
    found = select_pairs("variance", known, set(), 10, rng())
    assert set(np.unique(found)) == set(np.argsort(known.variance)[-10:])


def test_an_image_that_was_asked_with_all_others_is_left_out():
    known = severity(30)
    most = int(np.argmax(known.variance))
    asked = {(most, other) for other in range(30) if other != most}
    found = select_pairs("variance", known, asked, 5, rng())
    assert most not in found
    assert len(found) == 5


def test_partners_come_from_outside_where_the_chosen_know_each_other():
    known = severity(30)
    first, second = (int(row) for row in np.argsort(known.variance)[-2:])
    found = select_pairs("variance", known, {(first, second)}, 2, rng())
    assert {first, second} <= set(found.ravel().tolist())
    assert len(found) == 2


def test_core_set_is_the_greedy_one():
    """The slow, obvious form of farthest-first traversal."""
    points, centres = rng(1).normal(size=(40, 3)), rng(2).normal(size=(3, 3))
    found = farthest(points, centres, 10, rng())
    kept = [*centres]
    for row in found:
        nearest = [min(np.linalg.norm(point - other) for other in kept) for point in points]
        assert nearest[row] == pytest.approx(max(nearest))
        kept.append(points[row])
    assert len(set(found.tolist())) == 10


def test_core_set_keeps_away_from_what_was_asked():
    features = np.array([[0.0], [0.1], [5.0], [5.1], [10.0], [10.1]], np.float32)
    known = SeverityEstimate(np.zeros(6, np.float32), np.zeros(6, np.float32), features)
    found = select_pairs("core-set", known, {(0, 1), (4, 5)}, 1, rng())
    assert {2, 3} & set(found.ravel().tolist())


def test_core_set_of_the_encoder_covers_the_encoders_features():
    features = np.array([[0.0], [0.1], [5.0], [5.1], [10.0], [10.1]], np.float32)
    zeros = np.zeros(6, np.float32)
    known = SeverityEstimate(zeros, zeros, features[[2, 3, 0, 1, 4, 5]], None, features)
    found = select_pairs("core-set-encoder", known, {(0, 1), (4, 5)}, 1, rng())
    assert {2, 3} & set(found.ravel().tolist())
    without = SeverityEstimate(zeros, zeros, features)
    with pytest.raises(InvalidInput, match="needs the encoder's features"):
        select_pairs("core-set-encoder", without, set(), 1, rng())


def test_a_strategy_that_needs_an_encoder_is_refused_without():
    strategies.check_strategy("core-set-encoder", "lite0-max")
    strategies.check_strategy("core-set", None)
    with pytest.raises(InvalidInput, match="give --encoder, or use core-set"):
        strategies.check_strategy("core-set-encoder", None)


def test_core_set_takes_images_of_one_look_too():
    points = np.ones((5, 2))
    assert sorted(farthest(points, points[:2], 9, rng()).tolist()) == [0, 1, 2, 3, 4]


def gradients(count=9, seed=0):
    known = severity(count, seed)
    pairs = np.array(list(combinations(range(count), 2)))
    return known, pairs, PairGradients(pairs, known.mean, known.features)


def test_gradients_of_pairs_are_those_of_the_loss():
    known, pairs, found = gradients()
    weights = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    features = torch.from_numpy(known.features.astype(np.float64))
    scores = torch.from_numpy(known.mean.astype(np.float64))
    expected = []
    for i, j in pairs.tolist():
        answer = (scores[i] > scores[j]).double()
        shift = (scores[i] - scores[j]) - (features[i] - features[j]) @ weights.detach()
        gap = (features[i] - features[j]) @ weights + shift  # the ranker's, with its gradient
        loss = ranknet_loss(gap[None], torch.zeros(1, dtype=torch.float64), answer[None])
        expected.append(torch.autograd.grad(loss.sum(), weights)[0].numpy())
    expected = np.array(expected)
    np.testing.assert_allclose(found.squares, (expected**2).sum(axis=1), atol=1e-9)
    for pair in (0, 7, 35):
        apart = ((expected - expected[pair]) ** 2).sum(axis=1)
        np.testing.assert_allclose(found.distances(pair), apart, atol=1e-9)


def test_badge_starts_with_the_longest_gradient_and_draws_by_squared_distance():
    _, _, found = gradients(4)
    first = int(np.argmax(found.squares))
    draws = np.array([spread_pairs(found, 2, rng(seed)) for seed in range(2000)])
    assert (draws[:, 0] == first).all()
    shares = found.distances(first) / found.distances(first).sum()
    np.testing.assert_allclose(np.bincount(draws[:, 1], minlength=6) / 2000, shares, atol=0.04)
    assert len(set(spread_pairs(found, 99, rng()).tolist())) == 6


def test_badge_draws_by_the_distance_to_the_nearest_of_all_it_has():
    _, _, found = gradients(4, seed=1)
    first = int(np.argmax(found.squares))
    draws = np.array([spread_pairs(found, 3, rng(seed)) for seed in range(3000)])
    second = int(np.bincount(draws[:, 1]).argmax())
    thirds = draws[draws[:, 1] == second, 2]
    nearest = np.minimum(found.distances(first), found.distances(second))
    expected = nearest / nearest.sum()
    other = found.distances(second) / found.distances(second).sum()
    assert np.abs(expected - other).max() > 0.15, "the last pair alone would draw others"
    np.testing.assert_allclose(np.bincount(thirds, minlength=6) / len(thirds), expected, atol=0.05)


@pytest.mark.parametrize("count", [1, 2, 12, 21, 60])
def test_a_place_is_as_dense_as_its_twenty_neighbours_are_near(count):
    points = rng(count).normal(size=(count, 3)) * 4
    points[count // 2 :] = points[: count - count // 2]  # copies are neighbours too
    apart = np.sort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)[:, 1:21]
    expected = [distances.sum() / max(len(distances), 1) for distances in apart]
    np.testing.assert_allclose(_sparsity(points), expected, atol=1e-6)


def test_the_memory_for_the_densest_place_of_a_large_cluster_is_bounded():
    points = rng(0).normal(size=(4000, 2))
    tracemalloc.start()
    try:
        (found,) = typical_images(points, np.zeros(4000, bool), 1, rng())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.linalg.norm(points[found]) < 1
    assert peak < 8 * len(points) ** 2 / 10, "less than a tenth of all distances"


def test_typical_images_are_in_the_densest_place_of_each_cluster():
    random = rng(5)
    centres = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0], [50.0, 50.0]])
    points = np.concatenate(
        [centre + random.normal(size=(30 - 5 * k, 2)) for k, centre in enumerate(centres)]
    )
    of_centre = np.repeat(np.arange(4), [30, 25, 20, 15])
    used = np.arange(90) == 3  # of the largest cluster
    found = typical_images(points, used, 3, rng())
    assert of_centre[found].tolist() == [1, 2, 3]
    for row in found:
        members = points[of_centre == of_centre[row]]
        mean = [np.sort(np.linalg.norm(members - one, axis=1))[1:21].mean() for one in members]
        assert np.sort(np.linalg.norm(members - points[row], axis=1))[1:21].mean() == pytest.approx(min(mean))
    everything = typical_images(points, used, 200, rng())
    assert sorted(everything.tolist()) == list(range(90))
    assert everything[-1] == 3


def test_typiclust_takes_the_encoders_features():
    near, far = np.arange(4) / 100, 5 + np.arange(6) / 100
    encoder = np.concatenate([near, far, [10.0, 10.01]])[:, None]  # rows 4 to 9 are in no used cluster
    ranker = np.where(np.isin(np.arange(12), (2, 3)), 5.0, np.arange(12) / 100)[:, None]
    zeros = np.zeros(12, np.float32)
    known = SeverityEstimate(zeros, zeros, ranker, None, encoder)
    pool = CandidatePool(12, known, {(0, 1), (10, 11)}, None)
    for seed in range(5):
        (found,) = strategies.TypiClust().images(pool, 1, rng(seed))
        assert 4 <= found <= 9


def test_balanced_takes_from_every_step_of_severity():
    random = rng(3)
    mean = np.concatenate([random.normal(0, 0.3, 190), random.normal(8, 0.3, 10)]).astype(np.float32)
    known = SeverityEstimate(mean, random.random(200).astype(np.float32), np.zeros((200, 1), np.float32))
    chosen = np.unique(select_pairs("balanced", known, set(), 16, rng()))
    assert 6 <= (mean[chosen] > 4).sum() <= 10  # of 5 % of the images


def test_balanced_takes_the_most_uncertain_of_each_step():
    mean = np.repeat(np.arange(8), 5).astype(np.float32)
    uncertain = np.tile([1.0, 3.0, 9.0, 2.0, 8.0], 8).astype(np.float32)
    pool = CandidatePool(40, SeverityEstimate(mean, uncertain, np.zeros((40, 1), np.float32)), (), None)
    for count, values in ((8, {9.0}), (16, {9.0, 8.0})):
        rows = strategies.Balanced().images(pool, count, rng())
        assert np.bincount(mean[rows].astype(int)).tolist() == [count // 8] * 8
        assert set(uncertain[rows]) == values


def test_stratified_takes_from_every_step_of_severity_and_new_images_first():
    random = rng(3)
    mean = np.concatenate([random.normal(0, 0.3, 190), random.normal(8, 0.3, 30)]).astype(np.float32)
    known = SeverityEstimate(mean, random.random(220).astype(np.float32), np.zeros((220, 1), np.float32))
    used = {(190 + number, 191 + number) for number in range(0, 14, 2)}  # 14 of the 30 severe images
    chosen = np.unique(select_pairs("stratified", known, used, 24, rng()))
    severe = chosen[mean[chosen] > 4]
    assert 7 <= len(severe) <= 16  # 3 in proportion
    assert (severe >= 204).all(), "images in no pair yet come first"


def test_information_is_high_where_passes_contradict_each_other():
    torn, unsure, sure = [8.0, -8.0, 8.0, -8.0], [0.0] * 4, [9.0] * 4
    scores = np.array([torn, unsure, sure, [0.0] * 4], np.float32).T
    worth = information(scores, np.array([[0, 3], [1, 3], [2, 3]]))
    np.testing.assert_allclose(worth, [np.log(2), 0, 0], atol=0.01)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_information_is_between_nothing_and_one_bit_whoever_comes_first(seed):
    scores = rng(seed).normal(size=(7, 6)).astype(np.float32) * 5
    pairs = np.array(list(combinations(range(6), 2)))
    worth = information(scores, pairs)
    assert ((worth > -1e-9) & (worth <= np.log(2) + 1e-9)).all()
    np.testing.assert_allclose(worth, information(scores, pairs[:, ::-1]), atol=1e-9)


def test_disagreement_asks_for_the_pairs_that_tell_most():
    known = severity(30)
    found = select_pairs("disagreement", known, set(), 6, rng())
    every = np.array(list(combinations(range(30), 2)))
    worth = information(known.scores, every)
    assert information(known.scores, found).mean() > np.quantile(worth, 0.95)
    assert np.bincount(found.ravel()).max() <= 2


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.floats(0, 1), st.one_of(st.none(), st.integers(1, 80)), st.integers(0, 99))
def test_first_pairs(count, share, pairs, seed):
    found = first_pairs(count, share, pairs, rng(seed))
    images = max(2, share_of(share, count))
    most = images if pairs is None else min(pairs, images * (images - 1) // 2)
    assert len(set(unordered(found))) == len(found)
    assert (found[:, 0] != found[:, 1]).all()
    assert 1 <= len(found) <= max(most, 1)
    if pairs is None:
        assert len(np.unique(found)) == images
        assert len(found) == min(images, images * (images - 1) // 2)
    elif 2 * pairs >= images:
        assert len(np.unique(found)) == images


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("best", severity(4), set(), 2), "unknown strategy"),
        (("variance", None, set(), 2), "needs the severity"),
        (("random", None, set(), 2), "needs the mask"),
        (("random", severity(4), {(0, 4)}, 2), "of 4"),
        (("random", severity(4), set(), 1.5), "share"),
        (("random", severity(4), set(), -1), "0 or more"),
        (("random", severity(4), set(), True), "share"),
        (("random", severity(4), set(), float("nan")), "share"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, said):
    with pytest.raises(InvalidInput, match=said):
        select_pairs(*arguments, rng())


def test_random_needs_no_severity():
    assert len(select_pairs("random", None, set(), 3, rng(), np.ones(9, bool))) == 3


def test_severities_that_are_no_numbers_are_refused():
    known = severity(4)
    known.variance[2] = np.nan
    with pytest.raises(InvalidInput, match="finite"):
        select_pairs("variance", known, set(), 2, rng())


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(InvalidInput, match="mask of allowed images"):
        select_pairs("random", severity(4), set(), 2, rng(), np.ones(5, bool))


@pytest.mark.parametrize(("count", "pairs"), [(0, None), (1, None), (5, 0)])
def test_too_few_to_begin_with(count, pairs):
    with pytest.raises(InvalidInput):
        first_pairs(count, 0.5, pairs, rng())


def test_bins_are_eight_of_equal_width_whatever_a_single_outlier():
    mean = np.append(np.linspace(0, 8, 1001), [1000.0]).astype(np.float32)
    bins = severity_bins(mean)
    counts = np.bincount(bins)
    assert len(counts) == 8
    assert (np.diff(bins[:-1]) >= 0).all()
    assert counts.max() < 1.25 * counts.min(), "between the quantiles of 1 and 99 %, not up to the outlier"
    assert severity_bins(np.ones(3, np.float32)).max() <= 7


def test_turns_take_the_lowest_of_each_bin_before_the_second_of_any():
    bins = np.array([0] * 5 + [3] * 3 + [7])
    order = np.array([4.0, 2, 3, 1, 5, 9, 8, 7, 6])
    assert set(take_turns(bins, order, 3, rng()).tolist()) == {3, 7, 8}
    assert set(take_turns(bins, order, 5, rng()).tolist()) == {3, 7, 8, 1, 6}
    assert sorted(take_turns(bins, order, 99, rng()).tolist()) == list(range(9))


def test_passes_that_are_not_stored_are_drawn_with_mean_and_variance():
    mean, variance = np.array([0.0, 5.0], np.float32), np.array([0.01, 9.0], np.float32)
    estimate = SeverityEstimate(mean, variance, np.zeros((2, 1), np.float32))
    passes = np.concatenate([strategies._passes(estimate, rng(seed)) for seed in range(100)])
    assert len(passes) == 3000
    np.testing.assert_allclose(passes.mean(axis=0), mean, atol=0.2)
    np.testing.assert_allclose(passes.var(axis=0), variance, rtol=0.1)


def test_a_share_of_images_is_rounded_up():
    """A fifth of 11 are 3; 0.07 of 100 are 7, though 0.07 * 100 > 7 in floating point."""
    assert [share_of(share, count) for share, count in ((0.2, 11), (0.07, 100), (0.0, 5), (1.0, 5))] == [
        3,
        7,
        0,
        5,
    ]
    assert [share_of(count, 5) for count in (0, 4, 9)] == [0, 4, 5]
