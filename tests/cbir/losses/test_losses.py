"""Each loss against its plain formula, and what all of them promise."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import average_precision_score

from cbir import losses
from cbir.errors import InvalidInput
from cbir.losses import (
    ClassificationLoss,
    MapLoss,
    OrdinalLoss,
    PosAtTopLoss,
    RankNetLoss,
    RecallLoss,
    SimilarityLoss,
    SNdcgLoss,
    SpearmanLoss,
    TopRankLoss,
    embedding_loss,
    focal_loss,
    ranknet_loss,
)
from cbir.losses.toprank import log_softplus
from cbir.models.sorters import HandcraftedSorter, LstmSorter, exact_ranks, load

torch.set_num_threads(1)  # the work is small, and other tests want the cores

GRADES = torch.tensor([[0, 1, 2, 0, 3], [1, 0, 0, 0, 2.0]])
PS = (1.0, 2.0, 8.0, 16.0, 32.0, 64.0, 1000.0, math.inf)
SMOOTH = HandcraftedSorter()
ON_SCORES = {
    "spearman": lambda: SpearmanLoss(SMOOTH),
    "map": lambda: MapLoss(SMOOTH, "ranks"),
    "map precision": lambda: MapLoss(SMOOTH, "precision"),
    "map log": lambda: MapLoss(SMOOTH, "log"),
    "recall": lambda: RecallLoss(SMOOTH),
    "toprank 1": lambda: TopRankLoss(1),
    "toprank 16": lambda: TopRankLoss(16),
    "toprank 1000": lambda: TopRankLoss(1000),
    "pos-at-top": PosAtTopLoss,
    "ranknet": RankNetLoss,
    "s-ndcg": SNdcgLoss,
    "s-ndcg paper": lambda: SNdcgLoss("paper"),
}
EVERY = pytest.mark.parametrize("make", ON_SCORES.values(), ids=ON_SCORES)
NAMES = pytest.mark.parametrize("name", losses.names())


def scores_of(*shape, seed=0, type_=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(type_)


def softplus(z):
    return math.log1p(math.exp(-abs(z))) + max(z, 0)


# what each loss is


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


def test_nothing_is_lost_on_a_perfect_order():
    scores, relevant = torch.tensor([5.0, 4, 3, 2, 1, 0]), torch.tensor([1, 1, 1, 0, 0, 0])
    assert float(SpearmanLoss()(scores, relevant)) == 0
    assert float(MapLoss(form="ranks")(scores, relevant)) == 0
    assert float(MapLoss(form="precision")(scores, relevant)) == 0
    assert float(MapLoss(form="log")(scores, relevant)) == 0
    assert float(RecallLoss()(scores, relevant)) == 0
    assert float(SNdcgLoss(alpha=1e3)(scores, relevant)) == pytest.approx(0, abs=1e-6)


def test_recall_is_equations_9_and_10():
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.4]])  # ranks 1 2 3 4, and 4 3 2 1
    relevant = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]])
    assert float(RecallLoss(margin=2)(scores, relevant)) == pytest.approx(np.mean([2 + 3 - 1, 2 + 4 - 1]) / 4)
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


@pytest.mark.parametrize("z", [-1e30, -1e4, -50.0, -15.1, -14.9, -1.0, 0.0, 1.0, 50.0, 1e4, 1e30])
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


# what all of them promise


@EVERY
def test_gradients_are_those_of_the_values(make):
    scores = scores_of(2, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda of: make()(of, GRADES), scores)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_gradients_of_focal(gamma):
    labels = torch.tensor([0, 1, 2, 0])
    assert torch.autograd.gradcheck(
        lambda of: focal_loss(of, labels, gamma), scores_of(4, 3).requires_grad_()
    )


@EVERY
@pytest.mark.parametrize("type_", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [0.0, 1e-4, 1.0, 1e4])
def test_finite_at_any_size_and_type(make, type_, size):
    if getattr(make(), "form", "") == "paper":
        size = min(size, 1.0)  # as printed, S-NDCG refuses larger ones: see test_s_ndcg_leaves_its_domain
    scores = (size * scores_of(4, 30, type_=torch.float32).clamp(-1, 1)).to(type_).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = make()(scores, (scores_of(4, 30, seed=5) > 1).long())
    assert loss.dtype == torch.float32
    assert loss.ndim == 0
    assert torch.isfinite(loss)
    loss.backward()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("p", PS)
def test_toprank_where_the_plain_formula_overflows(p):
    scores = torch.tensor([-1e4, 1e4, 1e4, -1e4, 0.0], requires_grad=True)
    loss = TopRankLoss(p)(scores, torch.tensor([1, 0, 0, 0, 1]))
    loss.backward()
    assert torch.isfinite(scores.grad).all()
    assert float(loss.detach()) >= 14_999
    assert float(scores.grad[0]) < 0


@EVERY
def test_vectors_alike_in_one_batch_or_alone(make):
    scores = scores_of(2, 5)
    alone = [float(make()(of, grades)) for of, grades in zip(scores, GRADES, strict=True)]
    assert float(make()(scores, GRADES)) == pytest.approx(np.mean(alone))


@pytest.mark.parametrize("name", [name for name in ON_SCORES if name != "ranknet"])
def test_nothing_to_learn_from(name):
    loss = ON_SCORES[name]()
    with pytest.raises(InvalidInput, match="learns nothing from this batch"):
        loss(scores_of(2, 5), torch.zeros(2, 5))
    mixed = torch.stack([GRADES[0], torch.zeros(5)])
    assert float(loss(scores_of(2, 5), mixed)) == pytest.approx(float(loss(scores_of(2, 5)[0], GRADES[0])))


def test_one_class_alone_is_refused():
    for loss in (TopRankLoss(), PosAtTopLoss(), MapLoss(), RecallLoss()):
        with pytest.raises(InvalidInput, match="a sampler that provides both"):
            loss(scores_of(5), torch.ones(5))


@EVERY
@pytest.mark.parametrize("shapes", [((2, 5), (2, 4)), ((5,), (2, 5)), ((2, 2, 5), (2, 2, 5)), ((), ())])
def test_shapes_that_do_not_agree(make, shapes):
    with pytest.raises(InvalidInput, match="of one shape"):
        make()(torch.zeros(shapes[0]), torch.zeros(shapes[1]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TopRankLoss(0.5),
        lambda: TopRankLoss(math.nan),
        lambda: MapLoss(form="best"),
        lambda: SNdcgLoss("best"),
        lambda: SNdcgLoss(alpha=0.0),
        lambda: ClassificationLoss(8, 1),
        lambda: ClassificationLoss(8, 3, gamma=-1),
        lambda: OrdinalLoss(8, 1),
        lambda: OrdinalLoss(0, 5),
        lambda: ranknet_loss(torch.zeros(2), torch.zeros(3), torch.zeros(2)),
        lambda: embedding_loss("hinge", 8, 3),
        lambda: embedding_loss("toprank", 8, 3, q=2),
        lambda: embedding_loss("triplet", 8, 3, q=2),
        lambda: embedding_loss("focal", 8, 3, q=2),
    ],
)
def test_options_out_of_range(make):
    with pytest.raises(InvalidInput):
        make()


# on embeddings

LABELS = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])


@NAMES
@pytest.mark.parametrize("type_", [torch.float16, torch.float32, torch.float64])
def test_embeddings(name, type_):
    torch.manual_seed(0)
    loss = embedding_loss(name, 8, 3)
    for size in (1e-3, 1.0, 1e4):
        embeddings = (size * scores_of(9, 8).clamp(-1, 1)).to(type_).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            found = loss(embeddings, LABELS)
        found.backward()
        assert found.ndim == 0
        assert torch.isfinite(found)
        assert torch.isfinite(embeddings.grad).all()
        assert embeddings.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "name", [name for name in losses.names() if name != "ordinal"]
)  # which wants order alone
def test_learning_with_it_brings_classes_together(name):
    torch.manual_seed(0)
    loss = embedding_loss(name, 4, 3)
    embeddings = scores_of(9, 4, type_=torch.float32).requires_grad_()
    optimizer = torch.optim.Adam([embeddings, *(p for p in loss.parameters() if p.requires_grad)], 0.05)
    for _ in range(80):
        optimizer.zero_grad()
        loss(embeddings, LABELS).backward()
        optimizer.step()
    vectors = torch.nn.functional.normalize(embeddings.detach())
    nearest = (vectors @ vectors.T - 9 * torch.eye(9)).argmax(dim=1)
    assert torch.equal(LABELS[nearest], LABELS)


def test_retrieval_is_the_loss_of_each_anchor():
    embeddings = scores_of(9, 4)
    vectors = torch.nn.functional.normalize(embeddings)
    expected = []
    for anchor in range(9):
        others = [i for i in range(9) if i != anchor]
        relevance = (LABELS[others] == LABELS[anchor]).long()
        expected.append(float(TopRankLoss(4)(vectors[others] @ vectors[anchor], relevance)))
    assert float(SimilarityLoss(TopRankLoss(4))(embeddings, LABELS)) == pytest.approx(np.mean(expected))


def test_an_anchor_alone_in_its_class_is_left_out():
    embeddings, labels = scores_of(5, 4), torch.tensor([0, 0, 1, 1, 2])
    similarities = torch.nn.functional.normalize(embeddings) @ torch.nn.functional.normalize(embeddings).T
    expected = []
    for anchor in range(4):
        others = [i for i in range(5) if i != anchor]
        expected.append(
            float(MapLoss()(similarities[anchor, others], (labels[others] == labels[anchor]).long()))
        )
    assert float(SimilarityLoss(MapLoss())(embeddings, labels)) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("name", [member.name for member in losses.ON_SCORES])
@pytest.mark.parametrize("bad", [((2, 4), (2,)), ((5, 4), (4,)), ((5,), (5,))])
def test_embeddings_and_labels_that_do_not_agree(name, bad):
    with pytest.raises(InvalidInput, match="a label for each"):
        embedding_loss(name, 4, 3)(torch.zeros(bad[0]), torch.zeros(bad[1], dtype=torch.long))


def test_labels_out_of_range():
    with pytest.raises(InvalidInput, match="labels must be from 0 to 2"):
        embedding_loss("focal", 4, 3)(torch.zeros(2, 4), torch.tensor([0, 3]))


@pytest.mark.parametrize("sorter", ["pairwise", "handcrafted", "lstm", "cnn"])
def test_every_sorter_serves_a_loss(sorter):
    loss = SimilarityLoss(MapLoss(load(sorter))).train()
    embeddings = scores_of(9, 4, type_=torch.float32).requires_grad_()
    loss(embeddings, LABELS).backward()
    assert torch.isfinite(embeddings.grad).all()
    assert embeddings.grad.abs().sum() > 0


def test_the_sorter_may_learn_along():
    loss = SpearmanLoss(LstmSorter(hidden=8))
    loss(scores_of(2, 5, type_=torch.float32), GRADES).backward()
    assert all(weight.grad is not None for weight in loss.sorter.parameters())


# ordinal regression


def test_ordinal_is_the_mean_over_steps():
    torch.manual_seed(0)
    loss, vectors, grades = OrdinalLoss(4, 5).double(), scores_of(6, 4), [0, 1, 2, 3, 4, 2]
    with torch.no_grad():
        loss.thresholds.copy_(torch.tensor([-1.0, 0.5, 1.0, 2.0]))
    direction = loss.severity.weight[0].tolist()
    expected = []
    for vector, grade in zip(vectors.tolist(), grades, strict=True):
        score = 10 * sum(a * b for a, b in zip(vector, direction, strict=True))
        for step, threshold in enumerate(loss.thresholds.tolist()):
            expected.append(softplus(-(score - threshold) if grade > step else score - threshold))
    assert float(loss(vectors, torch.tensor(grades)).detach()) == pytest.approx(np.mean(expected))


def test_ordinal_asks_more_for_a_grade_missed_by_more():
    loss = OrdinalLoss(2, 5)
    with torch.no_grad():
        loss.severity.weight.copy_(torch.tensor([[1.0, 0.0]]))
        loss.thresholds.copy_(torch.tensor([-6.0, -2.0, 2.0, 6.0]))
    first = torch.tensor([[-0.8, 0.6]])  # a score of -8: grade 0
    costs = [loss(first, torch.tensor([grade])).item() for grade in range(5)]
    assert costs == sorted(costs)
    assert np.diff(costs).min() > 0.4


def test_ordinal_learns_an_order():
    torch.manual_seed(0)
    grades = torch.arange(60) % 4
    angles = 0.6 * grades + 0.1 * torch.randn(60)
    vectors = torch.stack([angles.cos(), angles.sin()], dim=1)
    loss = OrdinalLoss(2, 4)
    optimizer = torch.optim.Adam(loss.parameters(), 0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss(vectors, grades).backward()
        optimizer.step()
    assert (loss.thresholds.diff() > 0).all()
    assert spearmanr(loss.severity(vectors)[:, 0].detach(), grades).statistic > 0.8


@pytest.mark.parametrize("labels", [[0, 5], [-1, 2], []])
def test_ordinal_takes_grades_that_there_are(labels):
    with pytest.raises(InvalidInput, match=r"from 0 to 3|a label for each"):
        OrdinalLoss(8, 4)(torch.zeros(len(labels), 8), torch.tensor(labels, dtype=torch.long))
