"""The folder of a trained embedding, and the model as a descriptor."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors import network_descriptors
from cbir.descriptors.networks import embedder as models
from cbir.descriptors.networks import model_card
from cbir.descriptors.networks.model_card import load_onnx_network
from cbir.errors import CbirError, InvalidInput, NotFound
from cbir.images import from_array, read_images
from cbir.learn.models.scoring_network import apply_network
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.stored_models import model_problem
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.learn.training.stripes import SIDE, drawn, made


class TestFiles:
    def test_read_again(self, tmp_path):
        network = made().eval()
        models.save_embedder(network, tmp_path, {"classes": 3})
        pictures, _ = drawn(6)
        assert (
            apply_network(models.load_embedder(tmp_path), pictures) == apply_network(network, pictures)
        ).all()
        assert model_card.read_embedding_card(tmp_path)["classes"] == 3

    def test_other_weights(self, tmp_path):
        models.save_embedder(made(), tmp_path, {})
        content = (tmp_path / model_card.EMBEDDING_WEIGHTS).read_bytes()
        (tmp_path / model_card.EMBEDDING_WEIGHTS).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
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
        (tmp_path / model_card.EMBEDDING_CARD).write_text(card)
        with pytest.raises(InvalidInput, match="not the card of an embedding"):
            model_card.read_embedding_card(tmp_path)


class TestDescriptor:
    def test_alone_and_together_are_alike(self, model, images):
        describe = network_descriptors.EmbeddingDescriptor(network_descriptors.descriptor_name(model), model)
        pictures = [next(read_images(images / f"{place:02d}.png")) for place in range(5)]
        together = describe.describe_batch([describe.prepare(picture) for picture in pictures])
        alone = np.array([describe(picture) for picture in pictures])
        assert together == pytest.approx(alone, abs=1e-5)
        assert together.shape == (5, 16)
        assert describe.describe_batch([]).shape == (0, 16)

    def test_onnxruntime_and_torch_agree(self, model, images, tmp_path):
        pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra deep, is not installed")
        card = model_card.read_embedding_card(model)
        pixels = drawn(7)[0][:, None].astype(np.float32) / np.float32(255.0)
        with torch.inference_mode():
            expected = models.load_embedder(model)(torch.from_numpy(pixels)).numpy()
        assert load_onnx_network(model, card)(pixels) == pytest.approx(expected, abs=1e-5)
        assert load_onnx_network(model, {"sha256": card["sha256"]}) is None
        (tmp_path / model_card.EMBEDDING_ONNX).write_bytes(b"other")
        with pytest.raises(InvalidInput, match="not the file that its card describes"):
            load_onnx_network(tmp_path, card)

    @pytest.mark.parametrize("threads", ["2,1", "1", "", "many"])
    def test_threads_of_any_form(self, threads, model, monkeypatch):
        pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra deep, is not installed")
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        network = load_onnx_network(model, model_card.read_embedding_card(model))
        assert network is not None
        assert network(np.zeros((1, 1, SIDE, SIDE), np.float32)).shape == (1, 16)

    def test_described_by_the_command(self, model, images):
        found = CliRunner().invoke(
            app, ["describe", str(images / "00.png"), "--descriptor", str(model), "--format", "json"]
        )
        assert found.exit_code == 0, found.output

    def test_unknown_models(self):
        with pytest.raises(InvalidInput, match="not available"):
            network_descriptors.EmbeddingDescriptor("embedding:0123456789abcdef:16").prepare(
                from_array(np.zeros((4, 4)))
            )
        with pytest.raises(InvalidInput, match="not the name"):
            network_descriptors.EmbeddingDescriptor("embedding:short:16")

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
        exported = collection / "model" / model_card.EMBEDDING_ONNX
        if exported.exists():
            content = exported.read_bytes()
            exported.write_bytes(content[:-1])
            assert model_card.EMBEDDING_ONNX in verify_collection(opened)[0]
            exported.write_bytes(content)
        weights = collection / "model" / model_card.EMBEDDING_WEIGHTS
        weights.write_bytes(weights.read_bytes()[:-1])
        assert "model" in (model_problem(collection, opened.profile) or "")
        assert "model" in verify_collection(opened)[0]

    def test_the_profile_is_the_weights(self, model, tmp_path):
        network = models.load_embedder(model)
        models.save_embedder(network, tmp_path, {"other": "facts"})
        assert profiles.get(str(model)).descriptor == profiles.get(str(tmp_path)).descriptor
        models.save_embedder(made(3), tmp_path, {})
        assert profiles.get(str(model)).descriptor != profiles.get(str(tmp_path)).descriptor
