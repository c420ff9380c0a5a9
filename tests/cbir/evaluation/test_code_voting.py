"""The answer of least expected error, against trying every answer there is."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cbir.evaluation.code_error import ErrorRule, code_errors, prepare_truth
from cbir.evaluation.code_voting import (
    NeighbourLabels,
    VotingSetting,
    class_decisions,
    code_decisions,
    decide_answers,
    decision_errors,
    label_shares,
    tune_voting,
)
from cbir.evaluation.datasets.irma.codes import CodeTree
from tests.cbir.evaluation.datasets.small_tree import SMALL_TREE

CODES = ["1121-110-411-700", "1121-120-414-700", "1121-120-942-400", "1123-127-500-000", "1121-12f-460-443"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    path = tmp_path_factory.mktemp("tree") / "tree.txt"
    path.write_text(SMALL_TREE)
    return CodeTree.read(path)


def neighbours(labels, distances=None):
    labels = np.array(labels, np.int64)
    return NeighbourLabels(labels, np.ones(labels.shape) if distances is None else np.array(distances, float))


def code(choices, places, row):
    return "-".join(choice.answers[at[row]] for choice, at in zip(choices, places, strict=True))


def every_answer(axis):
    """All that an axis could be answered with these codes' characters."""
    parts = {known.split("-")[axis] for known in CODES}
    characters = sorted(set("".join(parts)) | {"*", "z"})
    return ["".join(answer) for answer in product(characters, repeat=len(next(iter(parts))))]


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=len(CODES), max_size=len(CODES)).filter(any),
    st.sampled_from(ErrorRule),
)
def test_no_answer_costs_less(tree, weights, rule):
    shares = np.array([weights]) / sum(weights)
    choices = code_decisions(CODES, tree, rule)
    answer = code(choices, decide_answers(shares, choices, 0.5), 0)
    truth = prepare_truth(CODES, tree, rule)
    expected = float(shares[0] @ code_errors(truth, [answer] * len(CODES)))
    for axis in (1, 2, 3):
        head, tail = answer.split("-")[:axis], answer.split("-")[axis + 1 :]
        for other in every_answer(axis)[::7]:
            instead = "-".join([*head, other, *tail])
            instead = "-".join(part.partition("*")[0].ljust(len(part), "*") for part in instead.split("-"))
            assert expected <= float(shares[0] @ code_errors(truth, [instead] * len(CODES))) + 1e-9


def test_unanimous_neighbours_are_believed(tree):
    choices = code_decisions(CODES, tree, ErrorRule.of_2007)
    shares = label_shares(neighbours([[2, 2, 2]]), VotingSetting(3, 0.0, 0.9), len(CODES))
    assert code(choices, decide_answers(shares, choices, 0.9), 0) == CODES[2]


def test_where_nobody_votes_nothing_is_answered(tree):
    choices = code_decisions(CODES, tree, ErrorRule.of_2009)
    shares = label_shares(neighbours([[-1, -1]]), VotingSetting(2, 4.0, 0.5), len(CODES))
    assert not shares.any()
    assert code(choices, decide_answers(shares, choices, 0.5), 0) == "****-***-***-***"


def test_the_threshold_is_the_share_that_a_digit_needs(tree):
    known = ["1121-120-411-700", "1121-120-412-700"]
    choices = code_decisions(known, tree, ErrorRule.of_2007)
    found = neighbours([[0, 0, 0, 1, 1]])
    shares = label_shares(found, VotingSetting(5, 0.0, 0.5), 2)
    assert code(choices, decide_answers(shares, choices, 0.59), 0) == "1121-120-411-700"
    assert code(choices, decide_answers(shares, choices, 0.61), 0) == "1121-120-41*-700"


def test_votes_by_distance():
    found = neighbours([[0, 1, 1, -1]], [[1.0, 2.0, 2.0, 0.1]])
    assert label_shares(found, VotingSetting(3, 0.0, 0.5), 2)[0] == pytest.approx([1 / 3, 2 / 3])
    assert label_shares(found, VotingSetting(3, 2.0, 0.5), 2)[0] == pytest.approx([2 / 3, 1 / 3])
    assert label_shares(found, VotingSetting(1, 2.0, 0.5), 2)[0] == pytest.approx([1, 0])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-1, 2), min_size=6, max_size=6), min_size=1, max_size=5),
    st.sampled_from([0.0, 2.0, 16.0]),
    st.sampled_from([0.0, 1e-300, 1.0, 1e300]),
)
@example([[-1] * 6], 2.0, 0.0)
def test_votes_are_shares(labels, sharpness, distance):
    found = neighbours(labels, np.full((len(labels), 6), distance))
    shares = label_shares(found, VotingSetting(6, sharpness, 0.5), 3)
    assert np.isfinite(shares).all()
    voters = (np.array(labels) >= 0).any(axis=1)
    np.testing.assert_allclose(shares.sum(axis=1), voters)


def test_what_is_paid_is_the_error(tree):
    for rule in ErrorRule:
        choices = code_decisions(CODES, tree, rule)
        shares = np.random.default_rng(0).dirichlet(np.ones(len(CODES)), 40)
        true = np.random.default_rng(1).integers(0, len(CODES), 40)
        places = decide_answers(shares, choices, 0.4)
        answers = [code(choices, places, row) for row in range(40)]
        expected = code_errors(prepare_truth([CODES[number] for number in true], tree, rule), answers)
        np.testing.assert_allclose(decision_errors(true, places, choices), expected, atol=1e-12)


def noisy(count, right, seed):
    """Neighbours of which the share `right` has the true label; the rest is drawn from all labels."""
    random = np.random.default_rng(seed)
    true = random.integers(0, len(CODES), count)
    other = random.integers(0, len(CODES), (count, 15))
    labels = np.where(random.random((count, 15)) < right, true[:, None], other)
    return NeighbourLabels(labels, np.sort(random.uniform(1, 2, (count, 15)), axis=1)), true


def test_more_neighbours_vote_where_single_ones_are_noisy(tree):
    choices = code_decisions(CODES, tree, ErrorRule.of_2009)
    assert tune_voting(*noisy(300, 0.4, 0), choices).setting.neighbours >= 7


def test_the_expected_error_holds_for_new_images(tree):
    choices = code_decisions(CODES, tree, ErrorRule.of_2009)
    tuned = tune_voting(*noisy(600, 0.35, 1), choices)
    found, true = noisy(600, 0.35, 2)
    shares = label_shares(found, tuned.setting, len(CODES))
    again = decision_errors(true, decide_answers(shares, choices, tuned.setting.threshold), choices).mean()
    assert tuned.error == pytest.approx(again, rel=0.2)
    nearest = decision_errors(
        true, decide_answers(label_shares(found, VotingSetting(1, 0, 0.5), len(CODES)), choices, 0.5), choices
    ).mean()
    assert again < nearest


def test_it_says_more_stars_where_votes_are_worthless(tree):
    choices = code_decisions(CODES, tree, ErrorRule.of_2007)
    found, true = noisy(400, 0.0, 3)
    tuned = tune_voting(found, true, choices)
    shares = label_shares(found, tuned.setting, len(CODES))
    constant = min(
        code_errors(
            prepare_truth([CODES[number] for number in true], tree, ErrorRule.of_2007), [answer] * 400
        ).mean()
        for answer in ("****-***-***-***", "112*-***-***-***", "1121-12*-***-***")
    )
    assert (
        decision_errors(true, decide_answers(shares, choices, tuned.setting.threshold), choices).mean()
        < constant * 1.1
    )


def test_classes_are_chosen_by_majority():
    choices = class_decisions(["1", "2", "3"])
    shares = label_shares(neighbours([[2, 1, 1], [0, 2, 2]]), VotingSetting(3, 0.0, 0.5), 3)
    assert decide_answers(shares, choices, 0.5)[0].tolist() == [1, 2]
    found = neighbours([[1, 0, 0], [0, 1, 1], [2, 0, 1]])
    tuned = tune_voting(found, np.array([1, 0, 2]), choices)
    assert tuned.setting.neighbours == 1
    assert tuned.error == 0


def test_of_equally_good_thresholds_that_of_the_rule_is_taken(tree):
    found = neighbours([[number] * 3 for number in range(5)], [[1.0, 1.0, 1.0]] * 5)
    tuned = tune_voting(found, np.arange(5), code_decisions(CODES, tree, ErrorRule.of_2009))
    assert (tuned.error, tuned.setting.threshold) == (0, 0.5)


def test_one_image_to_choose_by():
    tuned = tune_voting(neighbours([[0]]), np.array([1]), class_decisions(["1", "2"]))
    assert tuned.error == 1


def test_the_expected_error_of_one_half_is_that_of_the_setting_chosen_on_the_other():
    """Even images are right with one neighbour, odd ones with three: each half has the other's setting."""
    labels = [[1, 0, 0], [0, 1, 1]] * 10
    tuned = tune_voting(neighbours(labels), np.ones(20, np.int64), class_decisions(["1", "2"]))
    assert tuned.error == 1.0
