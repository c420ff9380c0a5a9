"""Each loss on scores against its plain formula."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import average_precision_score

from cbir.errors import InvalidInput
from cbir.learn.losses import (
    MapLoss,
    PartialAucLoss,
    PosAtTopLoss,
    RankNetLoss,
    RecallAtKLoss,
    RecallLoss,
    RoadmapLoss,
    SNdcgLoss,
    SpearmanLoss,
    TopRankLoss,
    focal_loss,
    ranknet_loss,
)
from cbir.learn.losses.score_losses import AbsoluteErrorLoss, SoftMarginLoss, log_softplus
from cbir.learn.models.sorters import Sorter, exact_ranks
from tests.cbir.learn.losses.scores import GRADES, PS, SMOOTH, scores_of, softplus


def test_spearman():
    scores, truth = scores_of(3, 9), scores_of(3, 9, seed=1)
    expected = np.mean([1 - spearmanr(a, b).statistic for a, b in zip(scores, truth, strict=True)])
    assert float(SpearmanLoss()(scores, truth)) == pytest.approx(expected)


def test_spearman_is_equation_4_scaled():
    scores, d = torch.tensor([[0.1, 0.5, -0.3, 0.9, 0.2], [3.0, 2, 1, 5, 4]], dtype=torch.float64), 5
    true = torch.tensor([[5, 3, 2, 4, 1], [2, 4, 5, 3, 1]])  # of GRADES; among equals, those of the scores
    squares = (SMOOTH(scores) - true).square().sum()
    assert float(SpearmanLoss(SMOOTH)(scores, GRADES)) == pytest.approx(
        float(squares) / 2 * 6 / (d * (d * d - 1))
    )


def test_map_is_equation_7_scaled():
    scores, relevant = scores_of(3, 8), torch.tensor([[1, 0] * 4, [0] * 7 + [1], [1, 1, 0, 0, 0, 0, 0, 0]])
    ranks = np.stack([rankdata(-row) for row in scores.numpy()])
    expected = [
        (row[mask].mean() - (mask.sum() + 1) / 2) / 8
        for row, mask in zip(ranks, relevant.numpy() > 0, strict=True)
    ]
    assert float(MapLoss(form="ranks")(scores, relevant)) == pytest.approx(np.mean(expected))


def test_map_of_precision_is_average_precision():
    scores, relevant = scores_of(20, 30), (scores_of(20, 30, seed=2) > 0.5).long()
    expected = np.mean([1 - average_precision_score(b, a) for a, b in zip(scores, relevant, strict=True)])
    assert float(MapLoss(form="precision")(scores, relevant)) == pytest.approx(expected)


def test_map_of_logarithms_is_their_mean_and_no_less_than_that_of_average_precision():
    scores, relevant = scores_of(20, 30), (scores_of(20, 30, seed=2) > 0.5).long()
    expected, bounds = [], []
    for row, wanted in zip(scores, relevant, strict=True):
        hits = wanted[row.argsort(descending=True)].numpy() > 0
        precisions = (hits.cumsum() / np.arange(1, 31))[hits]
        expected.append(-np.log(precisions).mean())
        bounds.append(-np.log(precisions.mean()))
    assert float(MapLoss(form="log")(scores, relevant)) == pytest.approx(np.mean(expected))
    assert (np.array(expected) >= np.array(bounds)).all()


def test_map_of_equal_scores_is_of_mean_ranks():
    random = np.random.default_rng(0)
    for _ in range(100):
        scores, relevant = (
            random.integers(0, 4, 7).astype(float),
            random.permutation(7) < random.integers(1, 7),
        )
        precisions = rankdata(-scores[relevant]) / rankdata(-scores)[relevant]
        given = torch.tensor(scores), torch.tensor(relevant)
        assert float(MapLoss(form="precision")(*given)) == pytest.approx(1 - precisions.mean())
        assert float(MapLoss(form="log")(*given)) == pytest.approx(-np.log(precisions).mean())


class Overshooting(Sorter):
    """Ranks as of a trained sorter, which may be less than 1."""

    def ranks(self, scores):
        return exact_ranks(scores) - 0.9


@pytest.mark.parametrize("form", ["precision", "log"])
def test_no_precision_is_above_1(form):
    scores, relevant = (
        torch.tensor([[3.0, 2, 1, 0], [3.0, 2, 1, 0]]),
        torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]]),
    )
    of_second = 1 / 1.1  # its rank is 1.1
    lost = 1 - of_second if form == "precision" else -math.log(of_second)
    assert float(MapLoss(Overshooting(), form)(scores, relevant)) == pytest.approx((0 + lost) / 2)


def test_nothing_is_lost_on_a_perfect_order():
    scores, relevant = torch.tensor([5.0, 4, 3, 2, 1, 0]), torch.tensor([1, 1, 1, 0, 0, 0])
    assert float(SpearmanLoss()(scores, relevant)) == 0
    assert float(MapLoss(form="ranks")(scores, relevant)) == 0
    assert float(MapLoss(form="precision")(scores, relevant)) == 0
    assert float(MapLoss(form="log")(scores, relevant)) == 0
    assert float(RecallLoss()(scores, relevant)) == 0
    assert float(SNdcgLoss(alpha=1e3)(scores, relevant)) == pytest.approx(0, abs=1e-6)


def test_recall_is_equations_9_and_10():
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.4], [0.9, 0.8, 0.7, 0.6]])
    relevant = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1]])  # ranks 3, 4, and 1 with 4
    expected = np.mean([0.5 + 3 - 1, 0.5 + 4 - 1, np.mean([0, 0.5 + 4 - 2])]) / 4
    assert float(RecallLoss(margin=0.5)(scores, relevant)) == pytest.approx(expected)
    assert float(RecallLoss()(scores[0], torch.tensor([1, 0, 0, 0]))) == 0


@pytest.mark.parametrize("p", PS)
def test_toprank_is_equation_5(p):
    scores, positive = scores_of(12), torch.tensor([1, 1, 1] + [0] * 9)
    terms = [[softplus(float(n - s)) for n in scores[3:]] for s in scores[:3]]
    norm = max if math.isinf(p) else lambda row: max(row) * sum((x / max(row)) ** p for x in row) ** (1 / p)
    expected = np.mean([norm(row) for row in terms])
    assert float(TopRankLoss(p)(scores, positive)) == pytest.approx(expected)
    both = TopRankLoss(p)(torch.stack([scores, scores.flip(0)]), torch.stack([positive, positive.flip(0)]))
    assert float(both) == pytest.approx(expected)


@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("size", [1.0, 30.0, 1e3, 1e5, 1e30])
def test_toprank_of_large_scores_in_extended_precision(size, p):
    scores = (size * scores_of(12)).float().requires_grad_()
    loss = TopRankLoss(p)(scores, torch.tensor([1, 1, 1] + [0] * 9))
    loss.backward()
    exact = scores.detach().numpy().astype(np.longdouble)
    z = exact[None, 3:] - exact[:3, None]
    terms = np.maximum(np.maximum(z, 0) + np.log1p(np.exp(-abs(z))), np.finfo(np.longdouble).tiny)
    highest = terms.max(axis=1, keepdims=True)
    if math.isinf(p):
        norms, powers = highest, terms == highest
    else:
        norms = highest * ((terms / highest) ** p).sum(axis=1, keepdims=True) ** (1 / np.longdouble(p))
        powers = (terms / norms) ** (p - 1)
    slopes = powers * np.exp(np.minimum(z, 0)) / (1 + np.exp(-abs(z))) / 3
    gradient = np.concatenate([-slopes.sum(axis=1), slopes.sum(axis=0)]).astype(float)
    assert float(loss.detach()) == pytest.approx(float(norms.mean()), rel=1e-5)
    np.testing.assert_allclose(scores.grad.numpy(), gradient, rtol=1e-4, atol=1e-5)


def test_toprank_falls_when_a_positive_rises():
    scores, positive = scores_of(12), torch.tensor([1, 1, 1] + [0] * 9)
    higher = scores + 0.5 * positive
    for p in PS:
        assert TopRankLoss(p)(higher, positive) < TopRankLoss(p)(scores, positive)


def test_pos_at_top_is_the_limit():
    scores, positive = scores_of(30), (scores_of(30, seed=3) > 1).long()
    assert float(PosAtTopLoss()(scores, positive)) == float(TopRankLoss(math.inf)(scores, positive))
    assert float(TopRankLoss(1e6)(scores, positive)) == pytest.approx(
        float(PosAtTopLoss()(scores, positive)), rel=1e-5
    )


@pytest.mark.parametrize(("margin", "temperature"), [(1.0, 1.0), (0.5, 3.0), (2.0, 0.2)])
def test_partial_auc(margin, temperature):
    scores, positive = scores_of(12).tolist(), [1, 1, 1] + [0] * 9
    expected = 0.0
    for i in range(3):
        costs = [max(0.0, margin - scores[i] + scores[j]) ** 2 for j in range(3, 12)]
        expected += temperature * math.log(np.mean([math.exp(cost / temperature) for cost in costs])) / 3
    loss = PartialAucLoss(margin, temperature)(scores_of(12), torch.tensor(positive))
    assert float(loss) == pytest.approx(expected)


def test_partial_auc_goes_from_all_negatives_to_the_highest():
    scores, positive = torch.tensor([2.0, 1.0, 0.0, -1.0]), torch.tensor([0, 1, 0, 0])
    highest, mean = 4.0, (4.0 + 0.0 + 0.0) / 3  # (1 - 1 + 2)^2, (1 - 1 + 0)^2 and none
    assert float(PartialAucLoss(temperature=1e-4)(scores, positive)) == pytest.approx(highest, rel=1e-3)
    assert float(PartialAucLoss(temperature=1e4)(scores, positive)) == pytest.approx(mean, rel=1e-3)


def roadmap_of_a_list(scores, relevant, temperature):
    """Ramzi et al. 2021, image by image."""
    positives = [s for s, is_relevant in zip(scores, relevant, strict=True) if is_relevant]
    negatives = [s for s, is_relevant in zip(scores, relevant, strict=True) if not is_relevant]

    def sigmoid(x):
        return 1 / (1 + math.exp(-x)) if x > -700 else 0.0

    def step(gap):
        if gap < 0:
            return sigmoid(gap / temperature)
        if gap <= 0.05:
            return sigmoid(gap / temperature) + 0.5
        return 100 * (gap - 0.05) + sigmoid(0.05 / temperature) + 0.5

    precisions = []
    for score in positives:
        best = 1 + sum(other > score for other in positives)
        precisions.append(best / (best + sum(step(other - score) for other in negatives)))
    low = np.mean([max(0.0, 0.9 - score) for score in positives])
    high = np.mean([max(0.0, score - 0.6) for score in negatives])
    return 0.5 * (1 - np.mean(precisions)) + 0.5 * (low + high)


@pytest.mark.parametrize("temperature", [0.01, 0.2])
def test_roadmap(temperature):
    scores, relevant = 0.3 * scores_of(6, 20), (scores_of(6, 20, seed=2) > 0.5).long()
    expected = [
        roadmap_of_a_list(a, b, temperature) for a, b in zip(scores.tolist(), relevant.tolist(), strict=True)
    ]
    assert float(RoadmapLoss(temperature)(scores, relevant)) == pytest.approx(np.mean(expected))


def test_roadmap_bounds_one_less_average_precision():
    scores, relevant = scores_of(20, 30), (scores_of(20, 30, seed=2) > 0.5).long()
    for row, wanted in zip(0.3 * scores, relevant, strict=True):
        of_row = roadmap_of_a_list(row.tolist(), wanted.tolist(), 0.01)
        low, high = (0.9 - row[wanted > 0]).clamp(min=0), (row[wanted == 0] - 0.6).clamp(min=0)
        bound = 2 * of_row - float(low.mean() + high.mean())
        assert bound >= 1 - average_precision_score(wanted, row)
        assert float(RoadmapLoss()(row, wanted)) == pytest.approx(of_row)


def test_roadmap_of_an_example():
    perfect, relevant = torch.tensor([0.95, 0.92, 0.5, 0.1]), torch.tensor([1, 1, 0, 0])
    assert float(RoadmapLoss()(perfect, relevant)) == pytest.approx(0, abs=1e-6)
    swapped = torch.tensor([0.9, 0.6], dtype=torch.float64)  # 0.3 the wrong way round: 25 + 1.5 less 0.0067
    below = 100 * 0.25 + 1.5 - 0.0066929
    assert float(RoadmapLoss()(swapped, torch.tensor([0, 1]))) == pytest.approx(
        0.5 * below / (1 + below) + 0.5 * (0.3 + 0.3), abs=1e-6
    )


def test_roadmap_of_ties():
    """An irrelevant image beside a relevant one costs a whole rank, an equal relevant one none."""
    scores = torch.tensor([0.5, 0.5, 0.2], dtype=torch.float64)
    one, two = (float(RoadmapLoss()(scores, torch.tensor(of))) for of in ([1, 0, 0], [1, 1, 0]))
    assert one == pytest.approx(0.5 * (1 - 1 / 2) + 0.5 * 0.4, abs=1e-9)
    assert two == pytest.approx(0.5 * 0.4, abs=1e-9)


@pytest.mark.parametrize("temperature", [0.01, 0.5])
def test_recall_at_k(temperature):
    scores, relevant = scores_of(4, 25), (scores_of(4, 25, seed=2) > 0.5).long()
    values = []
    for row, wanted in zip(scores.tolist(), relevant.tolist(), strict=True):
        for k in (1, 2, 4, 8, 16):
            found = 0.0
            for i in range(25):
                gaps = [(row[j] - row[i]) / temperature for j in range(25) if j != i]
                rank = 1 + sum(1 / (1 + math.exp(-gap)) if gap > -700 else 0 for gap in gaps)
                found += wanted[i] / (1 + math.exp(rank - k))
            most = min(k, sum(wanted))
            values.append(1 - min(found, most) / most)
    assert float(RecallAtKLoss(temperature)(scores, relevant)) == pytest.approx(np.mean(values))


def test_recall_at_k_is_never_more_than_all():
    """Nine equal ones at the top, of rank 5 each: a ninth that is nearly among the first 8 is no more recall."""
    scores = torch.tensor([0.9] * 9 + [0.1] * 4, dtype=torch.float64)
    found = {k: 9 / (1 + math.exp(5 - k)) for k in (1, 2, 4, 8, 16)}
    assert found[8] > 8
    expected = np.mean([1 - min(value / min(k, 9), 1) for k, value in found.items()])
    assert float(RecallAtKLoss()(scores, torch.tensor([1] * 9 + [0] * 4))) == pytest.approx(expected)


def test_recall_at_k_of_an_example():
    scores = torch.tensor([0.9, 0.5, 0.1], dtype=torch.float64)  # the relevant one has rank 2
    expected = np.mean([1 - 1 / (1 + math.exp(2 - k)) for k in (1, 2, 4, 8, 16)])
    assert float(RecallAtKLoss()(scores, torch.tensor([0, 1, 0]))) == pytest.approx(expected)
    first = float(RecallAtKLoss()(scores, torch.tensor([1, 0, 0])))
    assert first < expected < float(RecallAtKLoss()(scores, torch.tensor([0, 0, 1])))


@pytest.mark.parametrize(
    "z", [-1e30, -1e4, -50.0, -15.1, -14.9, -10.0, -5.5, -1.0, 0.0, 1.0, 50.0, 1e4, 1e30]
)
def test_log_softplus(z):
    at = torch.tensor(z, requires_grad=True)
    log_softplus(at).backward()
    assert float(at.detach()) == pytest.approx(z)
    assert float(log_softplus(at.detach())) == pytest.approx(
        math.log(softplus(z)) if z > -700 else z, rel=1e-6, abs=1e-6
    )
    slope = 1.0 if z < -30 else 1 / (1 + math.exp(-min(z, 700))) / softplus(z)
    assert float(at.grad) == pytest.approx(slope, rel=1e-5)


def test_ranknet():
    z = torch.tensor([2.0, 0.0, -3.0], dtype=torch.float64)
    for c in (1.0, 0.5, 0.0):
        probability = torch.sigmoid(z)
        expected = -c * probability.log() - (1 - c) * (1 - probability).log()
        torch.testing.assert_close(ranknet_loss(z, torch.zeros_like(z), torch.full_like(z, c)), expected)


def test_ranknet_over_all_pairs():
    scores, grades = [0.5, -1.0, 2.0], [1, 0, 1]
    pairs = {(0, 1): 1.0, (0, 2): 0.5, (1, 2): 0.0}
    expected = np.mean(
        [
            c * softplus(scores[j] - scores[i]) + (1 - c) * softplus(scores[i] - scores[j])
            for (i, j), c in pairs.items()
        ]
    )
    assert float(RankNetLoss()(torch.tensor(scores), torch.tensor(grades))) == pytest.approx(expected)


def test_s_ndcg_as_printed_and_its_gradient():
    """Eq. 9 of Huang et al. 2010, for a linear ranking function of a vector of features."""
    alpha, grades = 0.05, GRADES[0].double()
    features, theta = scores_of(5, 3), scores_of(3, seed=4).requires_grad_()
    SNdcgLoss("paper", alpha)(features @ theta, grades).backward()
    s = (features @ theta).detach()
    tanh = torch.tanh(alpha * (s[None, :] - s[:, None]))
    positions = 1 + tanh.sum(dim=1)
    gains = 2**grades - 1
    best = (gains.sort(descending=True).values / torch.log2(torch.arange(2.0, 7))).sum()
    by_position = -gains / torch.log2(1 + positions) ** 2 / ((1 + positions) * math.log(2)) / best
    slope = alpha * (1 - tanh**2)
    by_theta = (slope[:, :, None] * (features[None, :, :] - features[:, None, :])).sum(dim=1)
    torch.testing.assert_close(theta.grad, -(by_position[:, None] * by_theta).sum(dim=0))


def test_s_ndcg_of_sigmoids_becomes_ndcg():
    scores, (grades, _) = scores_of(5), GRADES.double()
    gains, ranks = 2**grades - 1, exact_ranks(scores[None])[0]
    best = (gains.sort(descending=True).values / torch.log2(torch.arange(2.0, 7))).sum()
    expected = 1 - float((gains / torch.log2(1 + ranks)).sum() / best)
    assert float(SNdcgLoss(alpha=1e4)(scores, grades)) == pytest.approx(expected)


def test_s_ndcg_leaves_its_domain():
    with pytest.raises(InvalidInput, match="use a smaller alpha"):
        SNdcgLoss("paper", alpha=10)(scores_of(2, 5), GRADES)
    with pytest.raises(InvalidInput, match="at least 0"):
        SNdcgLoss()(scores_of(2, 5), -GRADES)
    assert torch.isfinite(SNdcgLoss()(scores_of(2, 5), 500 * GRADES))


def test_focal():
    logits, labels = scores_of(7, 3), torch.tensor([0, 1, 2, 0, 1, 2, 2])
    torch.testing.assert_close(
        focal_loss(logits, labels, gamma=0), torch.nn.functional.cross_entropy(logits, labels)
    )
    p = torch.softmax(logits, dim=1)[torch.arange(7), labels]
    torch.testing.assert_close(focal_loss(logits, labels, gamma=1.5), (-((1 - p) ** 1.5) * p.log()).mean())
    weights = torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(
        focal_loss(logits, labels, 2, weights), (-weights[labels] * (1 - p) ** 2 * p.log()).mean()
    )


@pytest.mark.parametrize("form", ["sigmoid", "paper"])
def test_s_ndcg_of_positions(form):
    """Eqs. 5 to 8 of Huang et al. 2010, image by image, with the default steepness."""
    scores, grades = 3 * scores_of(6), torch.tensor([2.0, 0, 1, 3, 0, 1], dtype=torch.float64)
    values, alpha = scores.tolist(), {"sigmoid": 2.0, "paper": 0.001}[form]
    if form == "sigmoid":
        positions = [
            1
            + sum(
                (1 + math.tanh(alpha * (y - x) / np.std(values))) / 2 for j, y in enumerate(values) if j != i
            )
            for i, x in enumerate(values)
        ]
    else:
        positions = [1 + sum(math.tanh(alpha * (y - x)) for y in values) for x in values]
    gain = sum((2**g - 1) / math.log2(1 + at) for g, at in zip(grades.tolist(), positions, strict=True))
    best = sum((2**g - 1) / math.log2(2 + i) for i, g in enumerate(sorted(grades.tolist(), reverse=True)))
    assert float(SNdcgLoss(form)(scores, grades)) == pytest.approx(1 - gain / best)


@pytest.mark.parametrize(
    ("loss", "value"),
    [
        (AbsoluteErrorLoss(), lambda s, r: abs(s - r)),
        (SoftMarginLoss(), lambda s, r: softplus(-s if r else s)),
    ],
)
def test_losses_of_single_scores(loss, value):
    """Sections 4.2.1 and 4.2.2 of Engilberge et al. 2019: relevant images have the target 1, others 0."""
    scores, relevance = [[2.5, -0.5, 0.2], [0.0, 1.0, -3.0]], [[1, 0, 1], [0, 1, 0]]
    expected = np.mean(
        [value(s, r) for row in zip(scores, relevance, strict=True) for s, r in zip(*row, strict=True)]
    )
    assert float(loss(torch.tensor(scores), torch.tensor(relevance))) == pytest.approx(expected)


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_s_ndcg_of_sigmoids_does_not_depend_on_the_unit_of_the_scores(scale):
    """Down to a deviation of 1e-3; nearly equal scores are not spread any further."""
    scores, grades = scores_of(6), torch.tensor([2.0, 0, 1, 3, 0, 1], dtype=torch.float64)
    scores = (scores - scores.mean()) / scores.std(correction=0)
    whole = float(SNdcgLoss()(scores, grades))
    assert float(SNdcgLoss()(scale * scores, grades)) == pytest.approx(whole)
    least, less = (float(SNdcgLoss()(spread * scores, grades)) for spread in (1e-3, 1e-4))
    assert least == pytest.approx(whole)
    assert less == pytest.approx(float(SNdcgLoss(alpha=0.2)(scores, grades)))


@pytest.mark.parametrize("loss", [SpearmanLoss, TopRankLoss, PartialAucLoss, RoadmapLoss, RecallAtKLoss])
def test_images_of_one_relevance_teach_nothing(loss):
    scores = scores_of(2, 5)
    with pytest.raises(InvalidInput, match="learns nothing"):
        loss()(scores, torch.full((2, 5), 2))
    mixed = torch.stack([GRADES[0], torch.full((5,), 2.0)])
    assert float(loss()(scores, mixed)) == pytest.approx(float(loss()(scores[0], GRADES[0])))


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 2.0])
def test_focal_has_a_slope_where_the_true_class_is_certain(gamma):
    logits = torch.tensor([[200.0, 0.0], [0.0, 1.0], [-200.0, 0.0]], requires_grad=True)
    focal_loss(logits, torch.tensor([0, 1, 0]), gamma).backward()
    assert torch.isfinite(logits.grad).all()
    assert abs(float(logits.grad[0, 0])) < 1e-6
    assert float(logits.grad[2, 0]) == pytest.approx(-1 / 3)
