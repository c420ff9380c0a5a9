"""Embeddings that begin as a pretrained encoder: a head on its values, and fine-tuning."""

import json

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import nn
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors import encoders, network_descriptors
from cbir.descriptors.networks.embedder import Embedder, EmbeddingHead, load_embedder
from cbir.descriptors.networks.model_card import read_embedding_card
from cbir.descriptors.networks.model_files import load_weights
from cbir.errors import InvalidInput
from cbir.images import read_images
from cbir.learn.models.scoring_network import ScoringNetwork, apply_network
from cbir.learn.training.embedding_training import (
    EmbeddingData,
    EmbeddingRecipe,
    evaluate_embedding,
    initial_head,
    train_embedding,
)
from cbir.learn.training.fine_tuning import (
    build_trainable,
    check_trainable,
    fine_tuning_notes,
    parameter_groups,
    run_training_loop,
)
from tests.cbir.learn.training.stripes import weights_of


def values_of(count=60, features=24, seed=0):
    """Values of three classes: a shift of each in a few directions, and much more variance in all others."""
    random = np.random.default_rng(seed)
    classes = np.arange(count, dtype=np.int64) % 3
    values = random.normal(size=(count, features)) * 3
    values[:, :3] = random.normal(size=(count, 3)) * 0.3 + np.eye(3)[classes] * 2
    return values.astype(np.float16), classes


def data_of(count=60):
    values, classes = values_of(count)
    rows = np.arange(count)
    return EmbeddingData(
        values, classes, rows, {"training": rows[: count // 2], "validation": rows[count // 2 :]}
    )


class TestHead:
    def test_starts_as_discriminant_analysis(self):
        values, classes = values_of(600)
        head = EmbeddingHead(24, 2, 24).start_from(values, classes)
        wide = values.astype(np.float64)
        within = np.mean([np.cov(wide[classes == number].T, bias=True) for number in range(3)], axis=0)
        smooth = within + 0.1 * np.trace(within) / 24 * np.eye(24)
        # Directions with the greatest variance of all for a variance within classes of 1 (Fisher)
        _, reference = scipy.linalg.eigh(np.cov(wide.T, bias=True), smooth)
        for ours, expected in zip(head.rotation.numpy(), reference.T[::-1], strict=True):
            cosine = ours @ expected / np.linalg.norm(ours) / np.linalg.norm(expected)
            assert abs(cosine) == pytest.approx(1, abs=1e-3)

    def test_kept_values_are_a_share_of_the_vector_but_not_trained(self):
        values, classes = values_of()
        head = EmbeddingHead(24, 4, 8, kept=0.3).start_from(values, classes)
        inputs = torch.from_numpy(values).float()
        assert head.train()(inputs).shape == (60, 4)
        vectors = head.eval()(inputs)
        assert vectors.shape == (60, head.size) == (60, 12)
        assert vectors.norm(dim=1).detach().numpy() == pytest.approx(1, abs=1e-5)
        assert vectors[:, 4:].square().sum(1).detach().numpy() == pytest.approx(0.3, abs=1e-5)

    @pytest.mark.parametrize("values", [np.zeros((6, 5)), np.ones((6, 5)), np.eye(6, 5)])
    def test_values_without_variance_give_finite_vectors(self, values):
        head = EmbeddingHead(5, 8, 8, kept=0.5).start_from(values, np.arange(6) // 2).eval()
        assert head.size == 10
        assert torch.isfinite(head(torch.from_numpy(values).float())).all()

    @pytest.mark.parametrize("kept", [-0.1, 1.0, float("nan")])
    def test_share_out_of_range(self, kept):
        with pytest.raises(InvalidInput, match="must be from 0 to below 1"):
            initial_head(data_of(), kept=kept)

    def test_training_separates_classes(self, tmp_path):
        data = data_of(300)
        head = initial_head(data, 4, kept=0.0)
        with torch.no_grad():
            head.linear.weight.normal_(generator=torch.Generator().manual_seed(0))
        before = evaluate_embedding(apply_network(head, data.pictures), data, *data.parts.values())
        recipe = EmbeddingRecipe(epochs=8, classes=3, images=8, rate=0.02, patience=8)
        train_embedding(head, data, recipe, tmp_path)
        after = evaluate_embedding(apply_network(head, data.pictures), data, *data.parts.values())
        assert after.map > before.map + 0.05


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_FEATURE_FOLDER", str(tmp_path_factory.mktemp("features")))
        yield


def trained(images, out, *more):
    command = [
        "train",
        "embedding",
        "--data",
        str(images / "manifest.csv"),
        "--out",
        str(out),
        "--threads",
        "1",
    ]
    command += ["--encoder", "lite0-max", "--epochs", "1"]
    command += ["--classes", "3", "--images", "4", "--dimensions", "8"]
    return CliRunner().invoke(app, [*command, *more])


@pytest.fixture(scope="module")
def frozen(images, cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "frozen"
    outcome = trained(images, out)
    assert outcome.exit_code == 0, outcome.output
    return out


def described(folder, images):
    descriptor = network_descriptors.EmbeddingDescriptor(network_descriptors.descriptor_name(folder), folder)
    pictures = [next(read_images(images / f"{number:02d}.png")) for number in range(4)]
    return pictures, descriptor.describe_batch([descriptor.prepare(picture) for picture in pictures])


@pytest.mark.slow
class TestCommand:
    def test_frozen_encoder_and_head_run_without_torch(self, frozen, images):
        pictures, vectors = described(frozen, images)
        card = read_embedding_card(frozen)
        head = load_weights(
            frozen / "embedding.safetensors", card["sha256"], lambda: EmbeddingHead(**card["model"]["head"])
        ).eval()
        encoder = encoders.get("lite0-max")
        values = encoder.describe_batch([encoder.prepare(picture) for picture in pictures])
        assert vectors == pytest.approx(apply_network(head, values), abs=1e-4)
        assert card["training"]["rate"] == 1e-3
        assert (frozen / "report.html").is_file()

    def test_another_head_needs_no_network(self, frozen, images, tmp_path, monkeypatch):
        def fail(*_):
            raise AssertionError("the network runs again")

        monkeypatch.setattr("cbir.descriptors.encoders.encoder_network.EncoderNetwork.describe", fail)
        outcome = trained(images, tmp_path / "other", "--loss", "sodeep-map")
        assert isinstance(outcome.exception, AssertionError)  # in the export, after training
        assert (tmp_path / "other" / "checkpoint.pt").is_file()

    def test_changed_network_is_refused(self, frozen, images, tmp_path):
        for path in frozen.glob("embedding.*"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / "embedding.onnx").write_bytes(b"something else")
        with pytest.raises(InvalidInput, match="not the file that its card describes"):
            described(tmp_path, images)
        (tmp_path / "embedding.onnx").unlink()
        with pytest.raises(InvalidInput, match="is missing; copy the whole folder"):
            described(tmp_path, images)

    def test_fine_tuned_network_equals_its_export(self, images, cache, tmp_path):
        outcome = trained(images, tmp_path, "--fine-tune", "1", "--fine-tune-epochs", "1", "--loss", "focal")
        assert outcome.exit_code == 0, outcome.output
        assert "mAP of validation images 1.000, 1.000 before it" in outcome.output
        _, vectors = described(tmp_path, images)
        encoder, network = encoders.get("lite0"), load_embedder(tmp_path)
        pictures = [encoder.prepare(next(read_images(images / f"{number:02d}.png"))) for number in range(4)]
        assert vectors == pytest.approx(apply_network(network, np.array(pictures)), abs=1e-4)
        pretrained = Embedder(**network.options, weights="imagenet")
        first, last = (
            [(a != b).any() for a, b in zip(x.parameters(), y.parameters(), strict=True)]
            for x, y in (
                (network.backbone.network._blocks[0], pretrained.backbone.network._blocks[0]),
                (network.backbone.network._blocks[-1], pretrained.backbone.network._blocks[-1]),
            )
        )
        assert not any(first)
        assert any(last)
        outcome = trained(images, tmp_path, "--fine-tune", "2", "--fine-tune-epochs", "1", "--loss", "focal")
        assert "of another training" in str(outcome.exception)


@pytest.mark.parametrize(
    "options",
    [
        ["--weights", "w"],
        ["--backbone", "resnet18"],
        ["--side", "32"],
        ["--mirror"],
        ["--pooling", "average"],
    ],
)
def test_options_of_other_networks_are_refused_with_an_encoder(images, tmp_path, options):
    outcome = trained(images, tmp_path, *options)
    assert f"--encoder decides about {options[0]} itself" in str(outcome.exception)


def test_rate_of_zero_is_refused(images, tmp_path):
    assert "the rate above 0" in str(trained(images, tmp_path, "--rate", "0").exception)


@pytest.mark.parametrize(("after", "notes"), [(0.79, 1), (0.8, 1), (0.81, 0)])
def test_fine_tuning_that_does_not_help_is_noted(after, notes):
    head = {"history": [{"map": 0.6}, {"map": 0.8}, {"map": 0.7}], "best_epoch": 2}
    lines = fine_tuning_notes(head, {"history": [{"map": after}, {"map": 0.5}], "best_epoch": 1})
    assert len(lines) == notes
    assert all(f"mAP of validation images {after:.3f}, 0.800 before it" in line for line in lines)


def test_blocks_are_frozen_and_slower():
    encoder = encoders.get("lite0")
    head = EmbeddingHead(encoder.dimensions, 4, 8)
    embedder = build_trainable(encoder, head, 2).train()
    groups = parameter_groups(embedder, 0.2)
    assert [group.get("rate_factor", 1) for group in groups] == [1, 0.2]
    trained = {id(value) for group in groups for value in group["params"]}
    network = embedder.backbone.network
    assert not trained & {id(value) for block in network._blocks[:-2] for value in block.parameters()}
    assert {id(value) for block in network._blocks[-2:] for value in block.parameters()} <= trained
    before = weights_of(network).clone()
    embedder(torch.rand(2, 3, 32, 32))
    assert torch.equal(weights_of(network), before)  # statistics of batch norms too
    everything = build_trainable(encoder, head, 99)
    assert all(value.requires_grad for value in everything.backbone.parameters())


def test_a_group_learns_at_its_share_of_the_rate():
    values = nn.ParameterList([nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))])
    groups = [{"params": [values[0]]}, {"params": [values[1]], "rate_factor": 0.2}]
    run_training_loop(
        values,
        torch.optim.SGD(groups, 1.0),
        lambda step: values[0].sum() + values[1].sum(),
        3,
        rate=lambda step: 0.5,
    )
    assert [value.item() for value in values] == pytest.approx([-1.5, -0.3])


def test_messages(images, tmp_path):
    with pytest.raises(InvalidInput, match="own can be used frozen only: its ONNX form cannot be trained"):
        check_trainable("own")
    outcome = CliRunner().invoke(
        app,
        [
            "train",
            "embedding",
            "--data",
            str(images / "manifest.csv"),
            "--out",
            str(tmp_path),
            "--fine-tune",
            "1",
        ],
    )
    assert "is for a pretrained --encoder" in str(outcome.exception) + outcome.output


def test_cards_with_a_damaged_input_are_refused(tmp_path):
    card = {"model": {"encoder": "lite0", "dimensions": 8}, "sha256": "0" * 64, "input": {"fit": "none"}}
    (tmp_path / "embedding.json").write_text(json.dumps({**card, "onnx_sha256": "0" * 64}))
    descriptor = network_descriptors.EmbeddingDescriptor(f"embedding:{'0' * 16}:8", tmp_path)
    with pytest.raises(InvalidInput, match="has a damaged card"):
        descriptor.describe_batch([])
    (tmp_path / "embedding.json").write_text(json.dumps({**card, "onnx_sha256": "0" * 64} | {"input": 1}))
    with pytest.raises(InvalidInput, match="not the card of an embedding"):
        read_embedding_card(tmp_path)


def test_rankers_start_from_an_encoder():
    network = ScoringNetwork("lite0", 32, "imagenet")
    assert network(torch.rand(2, 1, 32, 32)).shape == (2,)


@pytest.mark.parametrize("options", [["--backbone", "small"], ["--weights", "w"]])
def test_rankers_take_network_and_weights_of_the_encoder(images, tmp_path, options):
    command = [
        "train",
        "ranker",
        "--data",
        str(images / "manifest.csv"),
        "--positive",
        "a",
        "--out",
        str(tmp_path),
    ]
    outcome = CliRunner().invoke(app, [*command, "--encoder", "lite0", *options])
    assert "leave out --weights and --backbone" in str(outcome.exception) + outcome.output
