"""Which images stand together in a batch."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from cbir.errors import InvalidInput
from cbir.learn.losses import TopRankLoss
from cbir.learn.training import samplers
from cbir.learn.training.samplers import (
    BalancedSampler,
    PositiveNegativeSampler,
    ShuffledSampler,
    augment_images,
)

LABELS = ["a"] * 50 + ["b"] * 9 + ["c"] * 2 + ["d"] * 30
POSITIVE = np.arange(1000) < 12


def test_balanced_batches():
    sampler = BalancedSampler(LABELS, classes=3, images=4)
    batches = list(sampler)
    assert len(batches) == len(sampler) == len(LABELS) // 12
    for batch in batches:
        counts = Counter(LABELS[i] for i in batch)
        assert len(counts) == 3
        assert set(counts.values()) == {4}
        for label in counts:
            chosen = [i for i in batch if LABELS[i] == label]
            assert len(set(chosen)) == min(4, LABELS.count(label))


def test_classes_come_equally_often():
    sampler = BalancedSampler(LABELS, classes=3, images=2, batches=400)
    counts = Counter(LABELS[i] for batch in sampler for i in batch)
    assert max(counts.values()) - min(counts.values()) <= 2


def test_every_image_of_a_class_comes_before_one_comes_again():
    drawn = [i for batch in BalancedSampler(LABELS, classes=4, images=5, batches=10) for i in batch if i < 50]
    assert sorted(drawn) == list(range(50))


def test_positives_and_negatives():
    sampler = PositiveNegativeSampler(POSITIVE)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 3  # 988 negatives
    for batch in batches:
        assert POSITIVE[batch].sum() == 5
        assert len(batch) == len(set(batch)) == 455
    assert len({i for batch in batches for i in batch if not POSITIVE[i]}) == 988


def test_fewer_than_asked_for():
    (batch,) = PositiveNegativeSampler([True, False, False])
    assert sorted(batch) == [0, 1, 2]


def test_every_image_once():
    batches = list(ShuffledSampler(100, 30))
    assert [len(batch) for batch in batches] == [25, 25, 25, 25]
    assert sorted(i for batch in batches for i in batch) == list(range(100))
    assert list(ShuffledSampler(1, 30)) == [[0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: ShuffledSampler(90, 20, seed=seed),
        lambda seed: BalancedSampler(LABELS, 2, 2, seed=seed),
        lambda seed: PositiveNegativeSampler(POSITIVE, seed=seed),
    ],
)
def test_seed_and_epoch(make):
    one, same, other = make(0), make(0), make(1)
    first, second = list(one), list(one)
    assert list(same) == first
    assert first != second
    assert list(other) != first
    same.set_epoch(1)
    assert list(same) == second


def test_in_a_data_loader():
    data = TensorDataset(torch.randn(1000), torch.from_numpy(POSITIVE))
    for scores, positive in DataLoader(data, batch_sampler=PositiveNegativeSampler(POSITIVE)):
        assert torch.isfinite(TopRankLoss()(scores, positive))


@pytest.mark.parametrize(
    "make",
    [
        lambda: PositiveNegativeSampler([True, True]),
        lambda: PositiveNegativeSampler([False]),
        lambda: PositiveNegativeSampler([]),
        lambda: PositiveNegativeSampler([0, 1], positives=0),
        lambda: PositiveNegativeSampler([0, 1], batches=0),
        lambda: ShuffledSampler(0),
        lambda: ShuffledSampler(5, 0),
        lambda: BalancedSampler([], 2, 2),
        lambda: BalancedSampler(["a"] * 9, 2, 2),
        lambda: BalancedSampler(LABELS, 5, 2),
        lambda: BalancedSampler(LABELS, 2, 1),
        lambda: BalancedSampler(LABELS, 2, 2, seed=-1),
    ],
)
def test_what_cannot_be_drawn(make):
    with pytest.raises(InvalidInput):
        make()


def test_pictures_are_turned_by_ten_degrees_at_most(monkeypatch):
    for amount in ("SHIFT", "ZOOM", "BRIGHTNESS", "CONTRAST"):
        monkeypatch.setattr(samplers, amount, 0.0)
    pictures = torch.zeros(200, 1, 65, 65)
    pictures[:, :, 31:34, 55:58] = 1.0  # 24 to the right of the centre
    turned = augment_images(pictures, torch.Generator().manual_seed(0))[:, 0]
    rows = (turned.sum(dim=2) * torch.arange(65.0)).sum(dim=1) / turned.sum(dim=(1, 2)) - 32
    angles = torch.rad2deg(torch.asin(rows / 24))
    assert 9 < float(angles.max()) < 10.5
    assert -10.5 < float(angles.min()) < -9
