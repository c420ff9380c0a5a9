"""The losses of two classes on one score."""

import pytest
import torch

from cbir.errors import InvalidInput
from cbir.learn.losses.embedding_losses import focal_loss
from cbir.learn.losses.score_losses import BinaryLoss


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.75, 0.25)])
def test_is_the_softmax_of_two_classes(gamma, weights):
    torch.manual_seed(0)
    scores = 3 * torch.randn(50, dtype=torch.float64)
    relevant = torch.rand(50) < 0.3
    logits = torch.stack([torch.zeros_like(scores), scores], dim=1)
    expected = focal_loss(logits, relevant.long(), gamma, torch.tensor(weights, dtype=torch.float64))
    assert BinaryLoss(gamma, weights)(scores, relevant) == pytest.approx(float(expected))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_gradients(gamma):
    torch.manual_seed(0)
    scores = torch.randn(2, 9, dtype=torch.float64, requires_grad=True)
    relevant = torch.rand(2, 9) < 0.5
    assert torch.autograd.gradcheck(lambda s: BinaryLoss(gamma, (0.5, 2.0))(s, relevant), scores)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_finite_at_large_scores(gamma, dtype):
    scores = torch.tensor([1e4, -1e4, 1e4, -1e4, 0.0], dtype=dtype, requires_grad=True)
    loss = BinaryLoss(gamma)(scores, torch.tensor([1, 1, 0, 0, 1]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[[0, 3]] == 0).all()
    assert scores.grad[1] < 0 < scores.grad[2]


def test_one_kind_alone_teaches_too():
    assert BinaryLoss()(torch.zeros(3), torch.zeros(3)) == pytest.approx(0.6931, abs=1e-4)


def test_what_cannot_be():
    for wrong in ({"gamma": -1.0}, {"gamma": float("nan")}, {"weights": (0.0, 1.0)}):
        with pytest.raises(InvalidInput):
            BinaryLoss(**wrong)
    with pytest.raises(InvalidInput):
        BinaryLoss()(torch.zeros(0), torch.zeros(0))
