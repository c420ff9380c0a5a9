"""Losses on embeddings, ordinal regression among them."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from cbir.errors import InvalidInput
from cbir.learn import losses
from cbir.learn.losses import (
    CornLoss,
    MapLoss,
    OrdinalLoss,
    RankNContrastLoss,
    SimilarityLoss,
    SpearmanLoss,
    TopRankLoss,
    embedding_loss,
)
from cbir.learn.models.sorters import LstmSorter, load
from tests.cbir.learn.losses.scores import GRADES, scores_of, softplus

LABELS = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
NAMES = pytest.mark.parametrize("name", losses.names())


def test_a_classifier_weighs_its_classes():
    """Focal loss, image by image: minus w (1 - p)^gamma log p of the true class."""
    torch.manual_seed(0)
    weights = torch.tensor([0.2, 1.0, 3.0])
    loss, embeddings = losses.ClassificationLoss(8, 3, 2.0, weights), scores_of(9, 8)
    logits = loss.classifier(embeddings.float()).double().detach().numpy()
    total = 0.0
    for row, label in zip(logits, LABELS.tolist(), strict=True):
        p = np.exp(row[label]) / np.exp(row).sum()
        total -= weights[label].item() * (1 - p) ** 2 * np.log(p)
    assert loss(embeddings, LABELS).item() == pytest.approx(total / 9, rel=1e-5)


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
    "name", [name for name in losses.names() if name not in ("ordinal", "corn")]
)  # which want order alone
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


@NAMES
def test_two_classes_are_enough(name):
    loss = embedding_loss(name, 4, 2)(scores_of(8, 4), torch.tensor([0, 0, 1, 1, 0, 1, 1, 0]))
    assert 0 < float(loss.detach()) < 100


@NAMES
def test_half_precision_becomes_float32_and_float64_stays(name):
    torch.manual_seed(0)
    loss = embedding_loss(name, 4, 3)
    half = scores_of(9, 4).half()
    found = loss(half, LABELS).detach()
    assert found.dtype == torch.float32
    assert float(found) == pytest.approx(float(loss(half.float(), LABELS).detach()), rel=1e-6)
    if name != "smooth-ap":  # the library's counts in float32
        assert loss.double()(scores_of(9, 4), LABELS).dtype == torch.float64


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


@pytest.mark.parametrize("loss", [OrdinalLoss, CornLoss])
@pytest.mark.parametrize("labels", [[0, 5], [-1, 2], []])
def test_ordinal_takes_grades_that_there_are(labels, loss):
    with pytest.raises(InvalidInput, match=r"from 0 to 3|a label for each"):
        loss(8, 4)(torch.zeros(len(labels), 8), torch.tensor(labels, dtype=torch.long))


def test_corn_is_the_mean_over_passed_steps():
    torch.manual_seed(0)
    loss, vectors, grades = CornLoss(4, 5).double(), scores_of(6, 4), [0, 1, 2, 3, 4, 2]
    weights, biases = loss.steps.weight.tolist(), loss.steps.bias.tolist()
    terms = []
    for step in range(4):
        for vector, grade in zip(vectors.tolist(), grades, strict=True):
            if grade >= step:  # it has passed the step before
                score = biases[step] + 10 * sum(a * b for a, b in zip(vector, weights[step], strict=True))
                terms.append(softplus(-score if grade > step else score))
    assert float(loss(vectors, torch.tensor(grades)).detach()) == pytest.approx(np.mean(terms))
    assert len(terms) == 6 + 5 + 4 + 2


def test_corn_learns_conditional_probabilities():
    """Of equal vectors, the probabilities become the shares: half pass the first step, a third of these the next."""
    loss = CornLoss(1, 3)
    optimizer = torch.optim.Adam(loss.parameters(), 0.05)
    for _ in range(300):
        optimizer.zero_grad()
        loss(torch.zeros(12, 1), torch.tensor([0] * 6 + [1] * 4 + [2] * 2)).backward()
        optimizer.step()
    assert loss.steps.bias.sigmoid().tolist() == pytest.approx([1 / 2, 1 / 3], abs=0.01)


@pytest.mark.parametrize("temperature", [0.2, 2.0])
def test_rank_n_contrast(temperature):
    vectors, grades = scores_of(7, 4), [0, 3, 1, 1, 2, 4, 0]
    unit = torch.nn.functional.normalize(vectors).tolist()
    terms = []
    for i in range(7):
        similarity = [-np.linalg.norm(np.subtract(unit[i], other)) / temperature for other in unit]
        for j in range(7):
            if j != i:
                far = [
                    k for k in range(7) if k != i and abs(grades[k] - grades[i]) >= abs(grades[j] - grades[i])
                ]
                terms.append(-similarity[j] + np.log(sum(np.exp(similarity[k]) for k in far)))
    for dtype in (torch.int64, torch.uint8, torch.float32):
        loss = RankNContrastLoss(temperature)(vectors, torch.tensor(grades, dtype=dtype))
        assert float(loss) == pytest.approx(np.mean(terms))


def test_rank_n_contrast_wants_the_order_of_the_grades():
    angles = torch.linspace(0, 1.5, 5)
    vectors, grades = torch.stack([angles.cos(), angles.sin()], dim=1), torch.arange(5)
    ordered = RankNContrastLoss()(vectors, grades)
    assert ordered < RankNContrastLoss()(vectors, torch.tensor([0, 2, 1, 3, 4]))
    assert ordered < RankNContrastLoss()(vectors, torch.tensor([4, 1, 2, 3, 0]))


def test_rank_n_contrast_needs_pairs():
    with pytest.raises(InvalidInput, match="at least 2 images"):
        RankNContrastLoss()(torch.zeros(1, 4), torch.tensor([0]))


@pytest.mark.parametrize("name", ["supcon", "corn", "rank-n-contrast"])
def test_gradients_are_those_of_the_values(name):
    torch.manual_seed(0)
    loss = embedding_loss(name, 4, 3).double()
    assert torch.autograd.gradcheck(lambda of: loss(of, LABELS), scores_of(9, 4).requires_grad_())


def test_supcon_is_equation_2():
    vectors = torch.nn.functional.normalize(scores_of(9, 4))
    logits = (vectors @ vectors.T / 0.1).tolist()
    terms = []
    for i in range(9):
        total = np.log(sum(np.exp(logits[i][a]) for a in range(9) if a != i))
        same = [p for p in range(9) if p != i and LABELS[p] == LABELS[i]]
        terms.append(-np.mean([logits[i][p] - total for p in same]))
    assert float(embedding_loss("supcon", 4, 3)(scores_of(9, 4), LABELS)) == pytest.approx(np.mean(terms))


def distances_of(labels):
    """Distances of unit vectors, and for each anchor the numbers of its class and of the others."""
    vectors = torch.nn.functional.normalize(scores_of(len(labels), 4))
    anchors = range(len(labels))
    same = [[j for j in anchors if j != i and labels[j] == labels[i]] for i in anchors]
    others = [[j for j in anchors if labels[j] != labels[i]] for i in anchors]
    return torch.cdist(vectors, vectors).tolist(), same, others


def test_triplet_takes_the_hardest_of_the_batch():
    """The mean over anchors that cost anything, with the farthest of their class and the nearest other."""
    apart, same, others = distances_of(LABELS)
    costs = [
        0.2 + max(d[j] for j in s) - min(d[j] for j in o) for d, s, o in zip(apart, same, others, strict=True)
    ]
    expected = np.mean([cost for cost in costs if cost > 0])
    assert float(embedding_loss("triplet", 4, 3)(scores_of(9, 4), LABELS)) == pytest.approx(
        expected, abs=1e-6
    )


def test_contrastive_pulls_pairs_of_a_class_and_pushes_others_apart():
    apart, same, others = distances_of(LABELS)
    pulled = [d[j] for d, s in zip(apart, same, strict=True) for j in s]
    pushed = [0.9 - d[j] for d, o in zip(apart, others, strict=True) for j in o if d[j] < 0.9]
    found = embedding_loss("contrastive", 4, 3, margin=0.9)(scores_of(9, 4), LABELS)
    assert float(found) == pytest.approx(np.mean(pulled) + np.mean(pushed), abs=1e-6)


def test_multi_similarity_weighs_the_pairs_that_are_not_easy():
    """Wang et al. 2019, eqs. 11 to 15, with alpha 2, beta 50, lambda 0.5 and the margin 0.1."""
    apart, same, others = distances_of(LABELS)
    terms = []
    for d, s, o in zip(apart, same, others, strict=True):
        similar = [1 - x * x / 2 for x in d]
        hard = [similar[j] for j in s if similar[j] - 0.1 < max(similar[k] for k in o)]
        near = [similar[k] for k in o if similar[k] + 0.1 > min(similar[j] for j in s)]
        terms.append(np.log1p(sum(np.exp(-2 * (x - 0.5)) for x in hard)) / 2)
        terms[-1] += np.log1p(sum(np.exp(50 * (x - 0.5)) for x in near)) / 50
    found = embedding_loss("multi-similarity", 4, 3)(scores_of(9, 4), LABELS)
    assert float(found) == pytest.approx(np.mean(terms), abs=1e-6)


def test_smooth_ap_is_average_precision_of_smooth_ranks():
    """Brown et al. 2020, eq. 8: the mean over images of their ranks among their class over those among all."""
    vectors = torch.nn.functional.normalize(scores_of(9, 4))
    similar = (vectors @ vectors.T).tolist()
    precisions = []
    for i in range(9):
        own = [j for j in range(9) if LABELS[j] == LABELS[i]]
        ratios = []
        for p in own:
            steps = {j: 1 / (1 + np.exp(-(similar[i][j] - similar[i][p]) / 0.1)) for j in range(9) if j != p}
            ratios.append((1 + sum(steps[j] for j in own if j != p)) / (1 + sum(steps.values())))
        precisions.append(np.mean(ratios))
    found = embedding_loss("smooth-ap", 4, 3, temperature=0.1)(scores_of(9, 4), LABELS)
    assert float(found) == pytest.approx(1 - np.mean(precisions), abs=1e-6)


# options and defaults


def test_options_reach_the_loss_of_the_library():
    """Of pytorch-metric-learning, each with its default and another value."""
    made = {
        "triplet": ("margin", 0.2, 0.7, lambda loss: loss.margin),
        "contrastive": ("margin", 0.5, 0.9, lambda loss: loss.neg_margin),
        "smooth-ap": ("temperature", 0.01, 0.1, lambda loss: loss.temperature),
    }
    for name, (option, default, other, read) in made.items():
        assert read(embedding_loss(name, 4, 3).loss) == default
        assert read(embedding_loss(name, 4, 3, **{option: other}).loss) == other


def test_focal_has_gamma_2_and_cross_entropy_0():
    """Lin et al. 2017 find 2 best."""
    assert embedding_loss("focal", 4, 3).gamma == 2.0
    assert embedding_loss("focal", 4, 3, gamma=0.5).gamma == 0.5
    assert embedding_loss("cross-entropy", 4, 3).gamma == 0.0


def test_map_has_logarithms_and_narrow_slopes_by_default():
    loss = embedding_loss("sodeep-map", 4, 3).loss
    assert (loss.form, loss.sorter.name, loss.sorter.temperature) == ("log", "pairwise", 0.05)
    assert SpearmanLoss().sorter.temperature == 0.7
