"""The Bayesian ranker: what it learns, what its uncertainty is, and that it is the same again."""

import json
import threading
from dataclasses import asdict

import numpy as np
import pytest
import torch

from cbir.descriptors.networks import backbones, model_card
from cbir.descriptors.networks.embedder import Embedder, save_embedder
from cbir.errors import InvalidInput, NotFound
from cbir.learn.severity.severity_networks import BayesianNetwork, UnitDropout
from cbir.learn.severity.severity_rankers import BayesianRanker, load_severity_ranker
from tests.service.features.annotate.active.drawn import SIDE, draw, judged

PICTURES, GRADES = draw(90)
PAIRS, LABELS = judged(GRADES[:60], 96)


def made(**options):
    return BayesianRanker(**{"side": SIDE, "epochs": 8, "steps": 0, "passes": 8, **options})


@pytest.fixture(scope="module")
def fitted():
    return made().fit(PICTURES[:60], PAIRS, LABELS)


def test_orders_images_it_has_not_seen(fitted):
    found = fitted.severity(PICTURES[60:])
    assert np.corrcoef(found.mean, GRADES[60:])[0, 1] > 0.8


def test_mean_and_variance_are_of_the_passes(fitted):
    found = fitted.severity(PICTURES[:7])
    assert found.mean.dtype == found.variance.dtype == found.features.dtype == np.float32
    assert found.scores.shape == (8, 7)
    assert found.features.shape == (7, fitted.network_.width)
    np.testing.assert_allclose(found.mean, found.scores.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.variance, (found.scores**2).mean(axis=0) - found.mean**2, atol=1e-3)
    assert (found.variance > 0).all()


def test_an_image_has_the_same_severity_in_any_company(fitted):
    together = fitted.severity(PICTURES)
    for row in (0, 41, 89):
        np.testing.assert_allclose(
            fitted.severity(PICTURES[row : row + 1]).scores[:, 0], together.scores[:, row], atol=1e-4
        )


def test_passes_at_once_are_the_passes_one_by_one(fitted):
    """The slow, obvious form: a network for each sample of the weights, its masks multiplied into them."""
    network = fitted.network_
    masks = network.masks(3, torch.Generator().manual_seed(5))
    seen = torch.from_numpy(PICTURES[:4])[:, None] / 255.0
    with torch.inference_mode():
        scores, _ = network.sampled(seen, masks)
        for number in range(3):
            single, _ = network.sampled(seen, [mask[number : number + 1] for mask in masks])
            plain = BayesianNetwork("small")
            plain.load_state_dict(network.state_dict())
            plain.eval()
            for dropout, mask in zip(plain.dropouts, masks, strict=True):
                layer = next(
                    parent[1]
                    for parent in plain.modules()
                    if isinstance(parent, torch.nn.Sequential) and len(parent) == 2 and parent[0] is dropout
                )
                kept = mask[number].view(1, -1, *(1,) * (layer.weight.ndim - 2))
                layer.weight.data *= kept
            np.testing.assert_allclose(single[0], scores[number], atol=1e-4)
            np.testing.assert_allclose(plain(seen), scores[number], atol=1e-4)


def test_the_same_seed_learns_the_same():
    one, other = (made(epochs=1, seed=3).fit(PICTURES[:60], PAIRS[:48], LABELS[:48]) for _ in range(2))
    torch.rand(5)
    another = made(epochs=1, seed=4).fit(PICTURES[:60], PAIRS[:48], LABELS[:48])
    first = one.severity(PICTURES)
    np.testing.assert_array_equal(first.mean, other.severity(PICTURES).mean)
    np.testing.assert_array_equal(first.variance, one.severity(PICTURES).variance)
    assert not np.array_equal(first.mean, another.severity(PICTURES).mean)


def test_learning_leaves_torchs_own_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    made(epochs=1).fit(PICTURES[:60], PAIRS[:20], LABELS[:20])
    assert torch.equal(torch.rand(3), expected)


def test_grades_calibrate_the_scores():
    grades = np.where(np.arange(60) % 2, GRADES[:60], np.nan)
    found = made(epochs=8).fit(PICTURES[:60], PAIRS, LABELS, grades)
    error = np.abs(found.severity(PICTURES[60:]).mean - GRADES[60:])
    assert found.calibrated_
    assert error.mean() < 0.8


def test_alike_pairs_bring_scores_together(fitted):
    pairs = np.array([[i, i + 1] for i in range(0, 60, 2)])
    found = made(epochs=4).fit(PICTURES[:60], pairs, np.full(30, 0.5)).severity(PICTURES[:60])
    assert found.mean.std() < 0.5 * fitted.severity(PICTURES[:60]).mean.std()


@pytest.mark.parametrize(
    ("pairs", "epochs", "steps", "batches"),
    [(8, 2, 0, 2 * 1), (8, 2, 7, 7 * 1), (40, 2, 7, 3 * 3), (40, 2, 5, 2 * 3)],
)
def test_few_pairs_are_gone_through_more_often(pairs, epochs, steps, batches):
    asked = []
    ranker = made(epochs=epochs, steps=steps, batch=16, passes=2)
    ranker.fit(PICTURES[:60], PAIRS[:pairs], LABELS[:pairs], stop=lambda: bool(asked.append(1)))
    assert len(asked) == batches


@pytest.mark.parametrize("backbone", ["toprank", "small", "mobilenetv3"])
def test_it_starts_from_a_trained_embedding(backbone, tmp_path):
    trained = Embedder(backbone, pooling="average", side=SIDE)
    save_embedder(trained, tmp_path, {})
    found = BayesianNetwork(backbone, 0.0, tmp_path).eval()
    images = torch.rand(2, 1, SIDE, SIDE)
    whole = torch.nn.Sequential(trained.backbone.network, trained.backbone.pool).eval()
    with torch.no_grad():
        torch.testing.assert_close(found.layers(images), whole(images))
    with pytest.raises(InvalidInput, match="another network"):
        made(backbone="fcn10", weights=str(tmp_path)).fit(PICTURES[:60], PAIRS[:8], LABELS[:8])
    held = tmp_path / model_card.EMBEDDING_WEIGHTS
    held.write_bytes(held.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidInput, match="not the file that its card describes"):
        BayesianNetwork(backbone, 0.0, tmp_path)


def test_stops_when_asked_to():
    asked = []

    def stop():
        asked.append(threading.get_ident())
        return len(asked) > 3

    found = made(epochs=1000).fit(PICTURES[:60], PAIRS, LABELS, stop=stop)
    assert len(asked) == 4
    assert np.isfinite(found.severity(PICTURES[:3]).mean).all()


def test_images_of_other_sizes_are_scaled():
    large = PICTURES[:60].repeat(3, axis=1).repeat(2, axis=2)
    found = made(epochs=2).fit(large, PAIRS, LABELS)
    np.testing.assert_allclose(found.severity(large[:5]).mean, found.severity(PICTURES[:5]).mean, atol=0.02)


def test_large_pictures_become_means_of_their_parts():
    large = np.random.default_rng(0).integers(0, 256, (2, 3 * SIDE, 3 * SIDE), dtype=np.uint8)
    means = large.reshape(2, SIDE, 3, SIDE, 3).mean(axis=(2, 4))
    np.testing.assert_allclose(made().prepare(large), means, atol=0.51)


def test_a_network_on_pictures_has_no_encoder(fitted):
    with pytest.raises(InvalidInput, match="has no encoder"):
        fitted.encoder_features(PICTURES)


def test_no_images_have_no_severity(fitted):
    found = fitted.severity(PICTURES[:0])
    assert found.mean.shape == found.variance.shape == (0,)
    assert found.features.shape == (0, fitted.network_.width)


def test_saved_and_loaded_it_says_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "kept", {"learnt": "from squares"})
    card = json.loads((tmp_path / "kept" / "severity.json").read_text())
    assert card["learnt"] == "from squares"
    again = load_severity_ranker(tmp_path / "kept")
    assert asdict(again) == asdict(fitted)
    np.testing.assert_array_equal(again.severity(PICTURES).mean, fitted.severity(PICTURES).mean)


def test_what_is_no_ranker_is_refused(fitted, tmp_path):
    with pytest.raises(NotFound):
        load_severity_ranker(tmp_path)
    fitted.save(tmp_path)
    weights, card = tmp_path / "severity.safetensors", tmp_path / "severity.json"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + b"x")
    with pytest.raises(InvalidInput, match="not the file"):
        load_severity_ranker(tmp_path)
    weights.write_bytes(content)
    said = json.loads(card.read_text())
    card.write_text(json.dumps({**said, "ranker": {**said["ranker"], "backbone": "toprank"}}))
    with pytest.raises(InvalidInput, match="does not fit"):
        load_severity_ranker(tmp_path)
    card.write_text("[]")
    with pytest.raises(InvalidInput, match="not the card"):
        load_severity_ranker(tmp_path)
    weights.unlink()
    card.write_text(json.dumps(said))
    with pytest.raises(NotFound):
        load_severity_ranker(tmp_path)


@pytest.mark.parametrize(
    ("pairs", "labels", "grades", "said"),
    [
        (np.empty((0, 2), int), [], None, "at least one pair"),
        ([[0, 1, 2]], [1], None, "shape"),
        ([[0.5, 1.0]], [1], None, "integers"),
        ([[0, 60]], [1], None, "refers to image 60"),
        ([[-1, 3]], [1], None, "refers to image -1"),
        ([[2, 2]], [1], None, "two different"),
        ([[0, 1]], [2.0], None, "labels from 0 to 1"),
        ([[0, 1]], [np.nan], None, "labels from 0 to 1"),
        ([[0, 1]], [1, 0], None, "labels"),
        ([[0, 1]], [1], [1.0], "as many grades"),
        ([[0, 1]], [1], [np.inf] * 60, "as many grades"),
    ],
)
def test_what_does_not_fit_is_refused(pairs, labels, grades, said):
    with pytest.raises(InvalidInput, match=said):
        made().fit(PICTURES[:60], pairs, labels, grades)


@pytest.mark.parametrize("images", [PICTURES.astype(float), PICTURES[0], PICTURES[..., None]])
def test_images_that_are_none_are_refused(fitted, images):
    with pytest.raises(InvalidInput, match="uint8"):
        fitted.severity(images)


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": 1.0},
        {"passes": 0},
        {"passes": 1001},
        {"epochs": 0},
        {"steps": -1},
        {"rate": 0},
        {"rate": np.nan},
        {"side": 16},
    ],
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(InvalidInput):
        made(**options)


def test_it_says_nothing_before_it_has_learnt():
    with pytest.raises(InvalidInput, match="not fitted"):
        made().severity(PICTURES)


@pytest.mark.parametrize("backbone", ["small", "fcn10", "toprank", "resnet18", "mobilenetv3", "densenet169"])
def test_every_backbone_drops_before_all_layers_but_the_first(backbone):
    plain = backbones.build_backbone(backbone, dimensions=None)
    network = BayesianNetwork(backbone).eval()
    layers = [part for part in plain.network.modules() if isinstance(part, torch.nn.Conv2d | torch.nn.Linear)]
    mixing = [part for part in layers[1:] if getattr(part, "groups", 1) == 1]
    dropouts = [part for part in network.modules() if isinstance(part, UnitDropout)]
    assert len(dropouts) == len(mixing) + 1  # and before the head
    with torch.inference_mode():
        scores, _ = network.sampled(
            torch.rand(2, 1, 32, 32), network.masks(2, torch.Generator().manual_seed(0))
        )
    assert scores.shape == (2, 2)
    assert torch.isfinite(scores).all()
