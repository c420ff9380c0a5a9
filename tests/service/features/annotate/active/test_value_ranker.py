"""The ranker on an encoder's values: what it learns, its projection, and what it refuses."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from cbir.errors import InvalidInput
from cbir.learn.severity.severity_networks import ValueNetwork, principal_projection
from cbir.learn.severity.severity_rankers import ValueRanker, load_severity_ranker
from service.features.annotate.active.pair_selection import severity_for_strategy
from tests.service.features.annotate.active.drawn import judged

GRADES = np.arange(120) % 4.0
_RANDOM = np.random.default_rng(3)
VALUES = _RANDOM.normal(size=(120, 40)).astype(np.float32)
VALUES[:, :3] += GRADES[:, None].astype(np.float32)
PAIRS, LABELS = judged(GRADES[:80], 160)


@pytest.fixture(scope="module")
def fitted():
    return ValueRanker(directions=16, hidden=8, passes=12).fit(VALUES[:80], PAIRS, LABELS)


def test_orders_images_it_has_not_seen(fitted):
    found = fitted.severity(VALUES[80:])
    assert np.corrcoef(found.mean, GRADES[80:])[0, 1] > 0.7
    assert found.scores.shape == (12, 40)
    assert found.features.shape == (40, 8)
    assert (found.variance > 0).all()


def test_training_begins_behind_the_first_layer(fitted):
    with torch.no_grad():
        first = fitted.network_.layers[0](torch.from_numpy(VALUES)).numpy()
    assert fitted.fixed_part(VALUES) == pytest.approx(first, abs=1e-5)


def test_passes_at_once_are_the_passes_one_by_one(fitted):
    """The slow, obvious form, in numpy: masks on the inputs of both dense layers; features are means."""
    network = fitted.network_
    masks = [mask.numpy() for mask in network.masks(12, torch.Generator().manual_seed(0))]
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    matrices = [value for name, value in state.items() if name.endswith("weight")]
    biases = [value for name, value in state.items() if name.endswith("bias")]
    scores, features = [], []
    for number in range(12):
        projected = VALUES[80:] @ matrices[0].T + biases[0]
        hidden = np.maximum((projected * masks[0][number]) @ matrices[1].T + biases[1], 0)
        features.append(hidden)
        scores.append(((hidden * masks[1][number]) @ matrices[2].T + biases[2])[:, 0])
    found = fitted.severity(VALUES[80:])
    np.testing.assert_allclose(found.scores, scores, atol=1e-4)
    np.testing.assert_allclose(found.features, np.mean(features, axis=0), atol=1e-4)


def test_features_of_the_encoder_are_its_principal_directions(fitted, tmp_path):
    expected = principal_projection(VALUES[:80], 16)(VALUES)
    assert fitted.encoder_features(VALUES) == pytest.approx(expected, abs=1e-5)
    fitted.save(tmp_path)
    loaded = load_severity_ranker(tmp_path)
    np.testing.assert_array_equal(loaded.encoder_features(VALUES), fitted.encoder_features(VALUES))
    for strategy, has_features in (("core-set-encoder", True), ("core-set", False)):
        severity = severity_for_strategy(strategy, fitted, VALUES)
        assert (severity.encoder_features is not None) == has_features


def test_the_projection_is_not_trained(fitted):
    expected = principal_projection(VALUES[:80], 16)
    np.testing.assert_array_equal(fitted.network_.layers[0].weight.numpy(), expected.weight)


@pytest.mark.parametrize("rows", [120, 25])
def test_directions_are_those_of_the_singular_value_decomposition(rows):
    """More images than values, and fewer."""
    values = VALUES[:rows]
    found = principal_projection(values, 6)(values)
    left, sizes, _ = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
    expected = (left * sizes)[:, :6]
    expected /= np.sqrt((expected**2).mean())
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-3)


@pytest.mark.parametrize("values", [np.ones((5, 40), np.float32), VALUES[:1], VALUES[:3]])
def test_directions_that_do_not_exist_are_zero(values):
    projection = principal_projection(values, 50)
    assert np.isfinite(projection(VALUES)).all()
    assert np.count_nonzero(projection.weight.any(axis=1)) <= len(values)


def test_copies_share_the_projection():
    one = ValueRanker(directions=16, hidden=8, passes=4, epochs=1, steps=0)
    make = one.copies(VALUES[:80])
    first, second = make(0), make(1)
    assert first.projection is second.projection
    alone = one.fit(VALUES[:80], PAIRS, LABELS).severity(VALUES)
    np.testing.assert_array_equal(first.fit(VALUES[:80], PAIRS, LABELS).severity(VALUES).mean, alone.mean)


def test_saved_and_loaded_it_says_the_same(fitted, tmp_path):
    fitted.save(tmp_path)
    assert json.loads((tmp_path / "severity.json").read_text())["values"] == 40
    again = load_severity_ranker(tmp_path)
    assert asdict(again) == asdict(fitted)
    np.testing.assert_array_equal(again.severity(VALUES).mean, fitted.severity(VALUES).mean)


def test_no_images_have_no_severity(fitted):
    assert len(fitted.severity(VALUES[:0])) == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (VALUES[:, :39], "takes 40 values per image, not 39"),
        (VALUES.astype(int), "must be floats"),
        (VALUES[0], "of shape"),
        (np.full((2, 40), np.nan), "finite"),
    ],
)
def test_what_does_not_fit_is_refused(fitted, values, said):
    with pytest.raises(InvalidInput, match=said):
        fitted.severity(values)


def test_dropout_precedes_both_dense_layers():
    assert [dropout.units for dropout in ValueNetwork(40, 16, 8).dropouts] == [16, 8]


def test_directions_of_many_images_are_of_evenly_spaced_ones():
    """Images are often in the order of their sources: the first 4,096 may be all alike."""
    values = np.zeros((8192, 3), np.float32)
    values[:4096, 0] = values[4096:, 1] = np.random.default_rng(0).normal(size=4096)
    weight = principal_projection(values, 2).weight
    assert (np.linalg.norm(weight[:, :2], axis=0) > 0.1).all()
    assert not weight[:, 2].any()
