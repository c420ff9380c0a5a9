"""Search by words on the page, with a small text tower of the test."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright import sync_api

from cbir.descriptors.encoders.encoder_files import (
    EncoderCard,
    EncoderInput,
    EncoderOutput,
    TextCard,
    TextFiles,
    write_network,
)
from tests.cbir.descriptors.encoders.onnx_models import SIDE, vector
from tests.e2e.browsing import choose, ids, settle
from tests.service.conftest import Served, cbir, serving

onnx = pytest.importorskip("onnx")
tokenizers = pytest.importorskip("tokenizers")

WORDS = {"?": 0, "knee": 1, "chest": 2}
LENGTH = 4


def text_network() -> bytes:
    """Return a model that averages a vector of 5 values per token."""
    weights = np.random.default_rng(1).normal(size=(len(WORDS), 5)).astype(np.float32)
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["w", "tokens"], ["vectors"]),
            helper.make_node("ReduceMean", ["vectors", "axes"], ["vector"], keepdims=0),
        ],
        "text",
        [helper.make_tensor_value_info("tokens", onnx.TensorProto.INT64, (1, LENGTH))],
        [helper.make_tensor_value_info("vector", onnx.TensorProto.FLOAT, (1, 5))],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(np.array([1]), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(model.SerializeToString())


def store_encoder(folder: Path) -> None:
    """Store an image-text model called "words"."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=LENGTH, pad_id=0, pad_token="?")
    tokenizer.enable_truncation(LENGTH)
    text = TextFiles(text_network(), tokenizer.to_str().encode())
    hashes = [hashlib.sha256(file).hexdigest() for file in text]
    card = EncoderCard(
        name="words",
        title="words",
        source="test",
        sha256="0" * 64,
        input=EncoderInput(width=SIDE, height=SIDE, mean=(0, 0, 0), deviation=(1, 1, 1)),
        outputs=(EncoderOutput(tensor="vector", pooling="none", dimensions=5),),
        text=TextCard(sha256=hashes[0], tokenizer_sha256=hashes[1], length=LENGTH),
    )
    folder.mkdir()
    write_network(folder, card, vector(5), text)


@pytest.fixture(scope="module")
def served(pictures: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("words")
    store_encoder(folder / "encoders")
    environment = {"CBIR_ENCODER_FOLDER": str(folder / "encoders")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_ENCODER_FOLDER", environment["CBIR_ENCODER_FOLDER"])
        cbir("index", *pictures[:-6], "--profile", "words", "--jobs", "1", "--collection", folder / "col")
    with serving(folder / "col", **environment) as running:
        yield running


def test_words_and_images_in_turn(page: sync_api.Page, pictures: list[Path]) -> None:
    page.get_by_label("Or words").fill("the knee")
    page.keyboard.press("Enter")
    settle(page)
    by_knee = ids(page, "Results")
    assert len(by_knee) == 20
    assert page.inner_text("#caption") == "Words · the knee"
    assert "knee" not in page.url
    assert not page.locator(".act.judge").first.is_visible()

    page.get_by_label("Or words").fill("chest")
    page.keyboard.press("Enter")
    page.get_by_text("Words · chest").wait_for()
    settle(page)
    assert ids(page, "Results") != by_knee

    page.go_back()
    page.get_by_text("Words · the knee").wait_for()
    settle(page)
    assert ids(page, "Results") == by_knee
    assert page.get_by_label("Or words").input_value() == "the knee"

    page.locator("#recent-list").get_by_text("chest", exact=True).click()
    page.get_by_text("Words · chest").wait_for()
    settle(page)
    assert ids(page, "Results") != by_knee
    page.locator("#recent-list").get_by_text("the knee").click()
    page.get_by_text("Words · the knee").wait_for()
    settle(page)
    assert ids(page, "Results") == by_knee
    assert page.locator("#recent-list li").count() == 2
    page.reload()
    assert not page.locator("#recent").is_visible()  # words are not stored
    page.get_by_label("Or words").fill("the knee")
    page.keyboard.press("Enter")
    settle(page)

    page.locator(".column .card").first.click()
    dialog = page.get_by_role("dialog")
    assert "rank 1 of 20" in dialog.get_by_role("heading").inner_text()
    assert not page.locator("#left").is_visible()
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")

    choose(page, pictures[-1])
    assert page.inner_text("#caption").startswith("Your image")
    assert page.locator("#left").get_attribute("hidden") is not None  # until the next comparison
