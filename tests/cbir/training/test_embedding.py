"""Training embeddings: `cbir train embedding`, the model's folder, and the model as a descriptor."""

import csv
import json
import signal
import subprocess
import sys
import time
from collections import Counter

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cbir.datasets.manifest import Manifest
from cbir.descriptors import embedding_descriptor
from cbir.errors import CbirError, InvalidInput, NotFound
from cbir.images import from_array, read_images
from cbir.main import app
from cbir.models import embedder as models
from cbir.models import embedding_card
from cbir.models.embedder import Embedder
from cbir.models.onnx_network import load_onnx_network
from cbir.store import Collection
from cbir.store import profile as profiles
from cbir.store.embedding_model import model_problem
from cbir.store.verify import verify_collection
from cbir.training.embedding_training import (
    EmbeddingData,
    EmbeddingRecipe,
    evaluate_embedding,
    train_embedding,
)
from cbir.training.labelled_examples import order_classes
from cbir.training.network_scoring import apply_network
from cbir.training.patient_split import split_by_class

torch.set_num_threads(1)  # the work is small, and other tests want the cores

SIDE = 32
SHORT = {"epochs": 3, "classes": 3, "images": 4}


def drawn(count=96, seed=0):
    """Grey noise with stripes of three directions, the classes, somewhere."""
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 120, (count, SIDE, SIDE), dtype=np.uint8)
    classes = np.arange(count, dtype=np.int64) % 3
    for place in range(count):
        row, column = random.integers(0, SIDE - 16, 2)
        patch = pictures[place, row : row + 16, column : column + 16]
        if classes[place] == 0:
            patch[::4] = 255
        elif classes[place] == 1:
            patch[:, ::4] = 255
        else:
            patch[np.arange(16)[:, None] % 8 == np.arange(16) % 8] = 255
    return pictures, classes


@pytest.fixture(scope="module")
def material():
    pictures, classes = drawn()
    groups = [str(place // 2 * 2 + place % 2) for place in range(len(classes))]
    parts = split_by_class([str(of) for of in classes], groups)
    return EmbeddingData(pictures, classes, np.arange(len(classes)), parts)


def made(seed=0):
    torch.manual_seed(seed)
    return Embedder("small", side=SIDE, dimensions=16)


def weights_of(network):
    return torch.cat([value.flatten().float() for value in network.state_dict().values()])


class TestTraining:
    @pytest.mark.parametrize("loss", ["sodeep-map", "triplet", "cross-entropy"])
    def test_a_class_comes_together(self, loss, material, tmp_path):
        network = made()
        told = train_embedding(network, material, EmbeddingRecipe(loss, **SHORT | {"epochs": 8}), tmp_path)
        vectors = apply_network(network, material.pictures)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
        found = evaluate_embedding(vectors, material, material.parts["test"], material.parts["training"])
        assert found.map > 0.6  # by chance 0.35
        best = max(row["map"] for row in told["history"])
        assert told["history"][told["best_epoch"] - 1]["map"] == best

    def test_going_on_gives_what_never_stopping_gives(self, material, tmp_path):
        class Stopped(Exception):
            pass

        def stop(step, steps, loss, reached):
            if step == 6:
                raise Stopped

        recipe = EmbeddingRecipe(**SHORT)
        whole, stopped, again = made(), made(), made(9)
        first = train_embedding(whole, material, recipe, tmp_path / "whole")
        with pytest.raises(Stopped):
            train_embedding(stopped, material, recipe, tmp_path / "stopped", save_every=0.0, progress=stop)
        steps = []
        second = train_embedding(
            again, material, recipe, tmp_path / "stopped", progress=lambda *told: steps.append(told[0])
        )
        assert steps[0] == 6  # the step that was stopped before it was saved
        assert torch.equal(weights_of(again), weights_of(whole))
        assert first["history"] == second["history"]

    def test_a_seed_decides(self, material, tmp_path):
        one, same, other = made(), made(), made()
        short = SHORT | {"epochs": 1}
        train_embedding(one, material, EmbeddingRecipe(**short), tmp_path / "one")
        train_embedding(same, material, EmbeddingRecipe(**short), tmp_path / "same")
        train_embedding(other, material, EmbeddingRecipe(**short, seed=1), tmp_path / "other")
        assert torch.equal(weights_of(one), weights_of(same))
        assert not torch.equal(weights_of(one), weights_of(other))

    def test_a_checkpoint_of_another_training_is_refused(self, material, tmp_path):
        train_embedding(made(), material, EmbeddingRecipe(**SHORT | {"epochs": 1}), tmp_path)
        with pytest.raises(InvalidInput, match="another training"):
            train_embedding(made(), material, EmbeddingRecipe(**SHORT), tmp_path)

    def test_patience_ends_it(self, material, tmp_path):
        recipe = EmbeddingRecipe(**SHORT | {"epochs": 30, "rate": 1e-9, "patience": 2})
        told = train_embedding(made(), material, recipe, tmp_path)
        assert len(told["history"]) < 30
        assert len(told["history"]) - told["best_epoch"] == 2

    @pytest.mark.parametrize(
        "wrong", [{"epochs": 0}, {"rate": 0}, {"patience": 0}, {"weight_decay": -1}, {"seed": -1}]
    )
    def test_recipes_out_of_range(self, wrong):
        with pytest.raises(InvalidInput):
            EmbeddingRecipe(**wrong)

    def test_an_unknown_loss_is_told(self, material, tmp_path):
        with pytest.raises(InvalidInput, match="no loss"):
            train_embedding(made(), material, EmbeddingRecipe("best", **SHORT), tmp_path)


class TestSplit:
    def test_groups_stay_together_and_classes_are_everywhere(self):
        random = np.random.default_rng(0)
        labels = [str(of) for of in random.integers(0, 4, 300)]
        groups = [str(of) for of in random.integers(0, 90, 300)]
        parts = split_by_class(labels, groups)
        assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(300))
        for one, other in (("training", "validation"), ("training", "test"), ("validation", "test")):
            assert not {groups[i] for i in parts[one]} & {groups[i] for i in parts[other]}
        for chosen in parts.values():
            assert {labels[i] for i in chosen} == set("0123")
        assert 0.5 < len(parts["training"]) / 300 < 0.7

    def test_too_few(self):
        with pytest.raises(InvalidInput, match="too few"):
            split_by_class(["a", "b"], ["1", "2"])


class TestFiles:
    def test_read_again(self, tmp_path):
        network = made().eval()
        models.save_embedder(network, tmp_path, {"classes": 3})
        pictures, _ = drawn(6)
        assert (
            apply_network(models.load_embedder(tmp_path), pictures) == apply_network(network, pictures)
        ).all()
        assert embedding_card.read_embedding_card(tmp_path)["classes"] == 3

    def test_other_weights(self, tmp_path):
        models.save_embedder(made(), tmp_path, {})
        content = (tmp_path / embedding_card.WEIGHTS).read_bytes()
        (tmp_path / embedding_card.WEIGHTS).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(InvalidInput, match="not the file that its card describes"):
            models.load_embedder(tmp_path)

    def test_nothing_there(self, tmp_path):
        with pytest.raises(NotFound):
            models.load_embedder(tmp_path)

    @pytest.mark.parametrize(
        "card",
        [
            "",
            "[]",
            "{}",
            '{"model": {"backbone": "small", "pooling": "gem", "dimensions": 16, "side": 32}, "sha256": "x"}',
            '{"model": {"backbone": 1, "pooling": "gem", "dimensions": 16, "side": 32}, "sha256": "'
            + "0" * 64
            + '"}',
            '{"model": {"backbone": "small", "pooling": "gem", "dimensions": 16, "side": 99999}, "sha256": "'
            + "0" * 64
            + '"}',
        ],
    )
    def test_cards_that_are_none(self, card, tmp_path):
        (tmp_path / embedding_card.CARD).write_text(card)
        with pytest.raises(InvalidInput, match="not the card of an embedding"):
            embedding_card.read_embedding_card(tmp_path)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of pictures and its manifest."""
    folder = tmp_path_factory.mktemp("images")
    pictures, classes = drawn(60)
    lines = ["path,label,patient"]
    for place, (picture, of) in enumerate(zip(pictures, classes, strict=True)):
        cv2.imwrite(str(folder / f"{place:02d}.png"), cv2.resize(picture, (64, 48)))
        lines.append(f"{place:02d}.png,kind {of},person {place // 6 * 3 + of}")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    return folder


def command(images, out, *more):
    sizes = ("--side", str(SIDE), "--dimensions", "16", "--classes", "3", "--images", "4", "--threads", "1")
    return ["train", "embedding", "--data", str(images / "manifest.csv"), "--out", str(out), *sizes, *more]


@pytest.fixture(scope="module")
def model(images, tmp_path_factory):
    """The folder of a model, trained by the command."""
    out = tmp_path_factory.mktemp("trained") / "stripes"
    found = CliRunner().invoke(app, command(images, out, "--epochs", "2"), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert "test: mAP" in found.output
    return out


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "2", "0.5", "2"], ["0.5", "2", "10"]),
        (["10", "2", "mild"], ["10", "2", "mild"]),
        (["nan", "1"], ["1", "nan"]),
        ([], []),
    ],
)
def test_classes_in_order(labels, expected):
    assert order_classes(labels) == expected


class TestCommand:
    def test_card_and_report(self, model, images):
        card = json.loads((model / embedding_card.CARD).read_text())
        assert card["model"] == {"backbone": "small", "pooling": "gem", "dimensions": 16, "side": SIDE}
        assert card["data"]["classes"] == {"kind 0": 20, "kind 1": 20, "kind 2": 20}
        assert card["data"]["split_by"].startswith("patient")
        assert card["training"]["loss"] == "multi-similarity"
        assert set(card["results"]) == {"validation", "test"}
        assert set(card["versions"]) == {"cbir", "torch", "torchvision"}
        assert "Not a medical device" in card["intended_use"]
        assert len(card["data"]["manifest_sha256"]) == 64
        report = (model / "report.html").read_text()
        assert "<svg" in report
        assert "data:image/" in report
        assert not [part for part in ('src="http', "src=http", "person 1") if part in report]
        assert len((model / "history.csv").read_text().splitlines()) == 3
        assert list((model / "events").glob("events.*"))

    def test_the_parts_are_told(self, model, images):
        with (model / "split.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        card = json.loads((model / embedding_card.CARD).read_text())
        assert Counter(row["split"] for row in rows) == card["data"]["images"]
        assert {row["path"] for row in rows} == {str(path) for path in images.glob("*.png")}
        told = dict(Manifest(images / "manifest.csv").rows())
        again = dict(Manifest(model / "split.csv").rows())
        assert {path: labels | {"split": again[path]["split"]} for path, labels in told.items()} == again
        for patient in {row["patient"] for row in rows}:
            assert len({row["split"] for row in rows if row["patient"] == patient}) == 1

    def test_rows_come_while_it_trains(self, material, tmp_path):
        told = []
        found = train_embedding(
            made(), material, EmbeddingRecipe(**SHORT), tmp_path, on_epoch=lambda rows: told.append(len(rows))
        )
        assert told == [1, 2, 3] == list(range(1, len(found["history"]) + 1))

    def test_killed_and_started_again(self, model, images, tmp_path):
        killed, args = tmp_path / "killed", ("--epochs", "2", "--save-every", "0")
        process = subprocess.Popen(
            [sys.executable, "-m", "cbir.main", *command(images, killed, *args)], stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 60
        while not (killed / "checkpoint.pt").exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (killed / "checkpoint.pt").exists()
        assert not (killed / embedding_card.CARD).exists()
        again = CliRunner().invoke(app, command(images, killed, *args), catch_exceptions=False)
        assert again.exit_code == 0
        one, other = (folder / embedding_card.WEIGHTS for folder in (model, killed))  # never stopped; killed
        assert one.read_bytes() == other.read_bytes()

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            (("--column", "nothing"), "no column nothing"),
            (("--loss", "best"), "no loss"),
            (("--backbone", "huge"), "huge"),
            (("--where", "label=kind 0"), "two classes"),
            (("--device", "nowhere"), "no device"),
            (("--loss", "ordinal"), "'kind 0' in label is not a number"),
        ],
    )
    def test_what_does_not_fit_is_told(self, more, told, images, tmp_path):
        found = CliRunner().invoke(app, command(images, tmp_path / "out", *more))
        assert isinstance(found.exception, CbirError)
        assert told in str(found.exception)


class TestDescriptor:
    def test_alone_and_together_are_alike(self, model, images):
        describe = embedding_descriptor.EmbeddingDescriptor(
            embedding_descriptor.descriptor_name(model), model
        )
        pictures = [next(read_images(images / f"{place:02d}.png")) for place in range(5)]
        together = describe.describe_batch([describe.prepare(picture) for picture in pictures])
        alone = np.array([describe(picture) for picture in pictures])
        assert together == pytest.approx(alone, abs=1e-5)
        assert together.shape == (5, 16)
        assert describe.describe_batch([]).shape == (0, 16)

    def test_onnxruntime_and_torch_agree(self, model, images, tmp_path):
        pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra deep, is not installed")
        card = embedding_card.read_embedding_card(model)
        pixels = drawn(7)[0][:, None].astype(np.float32) / np.float32(255.0)
        with torch.inference_mode():
            expected = models.load_embedder(model)(torch.from_numpy(pixels)).numpy()
        assert load_onnx_network(model, card)(pixels) == pytest.approx(expected, abs=1e-5)
        assert load_onnx_network(model, {"sha256": card["sha256"]}) is None
        (tmp_path / embedding_card.ONNX).write_bytes(b"other")
        with pytest.raises(InvalidInput, match="not the file that its card describes"):
            load_onnx_network(tmp_path, card)

    @pytest.mark.parametrize("threads", ["2,1", "1", "", "many"])
    def test_threads_of_any_form(self, threads, model, monkeypatch):
        pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra deep, is not installed")
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        network = load_onnx_network(model, embedding_card.read_embedding_card(model))
        assert network is not None
        assert network(np.zeros((1, 1, SIDE, SIDE), np.float32)).shape == (1, 16)

    def test_described_by_the_command(self, model, images):
        found = CliRunner().invoke(
            app, ["describe", str(images / "00.png"), "--descriptor", str(model), "--format", "json"]
        )
        assert found.exit_code == 0, found.output

    def test_unknown_models(self):
        with pytest.raises(InvalidInput, match="not available"):
            embedding_descriptor.EmbeddingDescriptor("embedding:0123456789abcdef:16").prepare(
                from_array(np.zeros((4, 4)))
            )
        with pytest.raises(InvalidInput, match="not the name"):
            embedding_descriptor.EmbeddingDescriptor("embedding:short:16")

    def test_index_search_and_another_model(self, model, images, tmp_path):
        collection = tmp_path / "collection"
        indexing = ["index", str(images), "--profile", str(model), "--collection", str(collection)]
        labels = ["--labels", str(images / "manifest.csv"), "--jobs", "1"]
        done = CliRunner().invoke(app, [*indexing, *labels])
        assert done.exit_code in (0, 3), done.output  # 3: the manifest is no image
        opened = Collection(collection)
        assert verify_collection(opened) == []
        assert opened.profile.name == "stripes"
        asking = ["search", str(images / "07.png"), "--collection", str(collection), "--rerank", "none"]
        found = CliRunner().invoke(app, [*asking, "--format", "json"])
        assert found.exit_code == 0, found.output
        asked = json.loads(found.output)
        alone = opened.profile.load_descriptor()(next(read_images(images / "07.png")))
        for one in asked["results"][:3]:
            apart = np.linalg.norm(opened.vector(one["image_id"]) - alone)
            assert one["distance"] == pytest.approx(apart, abs=1e-4)

        models.save_embedder(made(3), tmp_path, {})
        with pytest.raises(CbirError):
            CliRunner().invoke(
                app,
                ["index", str(images), "--profile", str(tmp_path), "--collection", str(collection)],
                catch_exceptions=False,
            )
        exported = collection / "model" / embedding_card.ONNX
        if exported.exists():
            content = exported.read_bytes()
            exported.write_bytes(content[:-1])
            assert embedding_card.ONNX in verify_collection(opened)[0]
            exported.write_bytes(content)
        weights = collection / "model" / embedding_card.WEIGHTS
        weights.write_bytes(weights.read_bytes()[:-1])
        assert "model" in (model_problem(collection, opened.profile) or "")
        assert "model" in verify_collection(opened)[0]

    def test_the_profile_is_the_weights(self, model, tmp_path):
        network = models.load_embedder(model)
        models.save_embedder(network, tmp_path, {"other": "facts"})
        assert profiles.get(str(model)).descriptor == profiles.get(str(tmp_path)).descriptor
        models.save_embedder(made(3), tmp_path, {})
        assert profiles.get(str(model)).descriptor != profiles.get(str(tmp_path)).descriptor
