"""What all losses promise: gradients, finite values, and refusals of wrong input."""

import math

import numpy as np
import pytest
import torch

from cbir.errors import InvalidInput
from cbir.learn.losses import (
    ClassificationLoss,
    CornLoss,
    MapLoss,
    OrdinalLoss,
    PartialAucLoss,
    PosAtTopLoss,
    RankNetLoss,
    RecallAtKLoss,
    RecallLoss,
    RoadmapLoss,
    SNdcgLoss,
    SpearmanLoss,
    TopRankLoss,
    embedding_loss,
    focal_loss,
    names,
    option_names,
    ranknet_loss,
)
from tests.cbir.learn.losses.scores import GRADES, PS, SMOOTH, scores_of

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
    "partial-auc": PartialAucLoss,
    "partial-auc, near the highest negative": lambda: PartialAucLoss(temperature=0.01),
    "roadmap": RoadmapLoss,
    "roadmap, wide": lambda: RoadmapLoss(0.5),
    "recall-at-k": RecallAtKLoss,
    "recall-at-k, wide": lambda: RecallAtKLoss(0.5),
    "s-ndcg paper": lambda: SNdcgLoss("paper"),
}
EVERY = pytest.mark.parametrize("make", ON_SCORES.values(), ids=ON_SCORES)


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
        lambda: CornLoss(8, 1),
        lambda: OrdinalLoss(8, 1),
        lambda: OrdinalLoss(0, 5),
        lambda: ranknet_loss(torch.zeros(2), torch.zeros(3), torch.zeros(2)),
        lambda: embedding_loss("hinge", 8, 3),
        lambda: embedding_loss("toprank", 8, 3, q=2),
        lambda: embedding_loss("triplet", 8, 3, q=2),
        lambda: embedding_loss("focal", 8, 3, q=2),
        lambda: embedding_loss("focal", 8, 3, gamma="high"),
        lambda: embedding_loss("focal", 8, 3, weights=2.0),
        lambda: embedding_loss("ranknet", 8, 3, args=1),
        lambda: embedding_loss("sodeep-map", 8, 3, sorter=1),
    ],
)
def test_options_out_of_range(make):
    with pytest.raises(InvalidInput):
        make()


@pytest.mark.parametrize("name", names())
def test_every_option_can_be_given(name):
    assert "args" not in option_names(name)


@pytest.mark.parametrize("name", names())
def test_embeddings_without_a_label_each_are_refused(name):
    for embeddings, labels in [((0, 4), 0), ((6, 4), 5), ((6,), 6)]:
        with pytest.raises(InvalidInput, match="a label for each"):
            embedding_loss(name, 4, 3)(torch.zeros(embeddings), torch.zeros(labels, dtype=torch.long))


@pytest.mark.parametrize("name", ["cross-entropy", "focal", "ordinal", "corn"])
def test_other_dimensions_and_labels_that_are_no_integers_are_refused(name):
    with pytest.raises(InvalidInput, match="is of 4 dimensions; these embeddings have 5"):
        embedding_loss(name, 4, 3)(torch.zeros(2, 5), torch.zeros(2, dtype=torch.long))
    for label in (0.5, math.nan):
        with pytest.raises(InvalidInput, match="integers"):
            embedding_loss(name, 4, 3)(torch.zeros(2, 4), torch.full((2,), label))
