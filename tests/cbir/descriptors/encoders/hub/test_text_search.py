"""Search by text with a small CLIP of transformers: scores are the library's own cosines."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image as PillowImage
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.descriptors import encoders
from cbir.descriptors.encoders import encoder_files, load_text_tower
from cbir.errors import InvalidInput, NotFound
from cbir.search import Request, Searcher, Stopwatch, can_search_by_text
from cbir.search.text_search import text_encoder
from cbir.store import Collection
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter
from service.app import create_app
from tests.cbir.descriptors.encoders.hub.text_models import SENTENCES, save_clip
from tests.service.conftest import page_facts

COUNT = 24


def cbir(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Fetch the CLIP, and index pictures of its size; return the folder, with the library's features of both."""
    folder = tmp_path_factory.mktemp("text")
    model, tokenizer = save_clip(folder / "model")
    pictures = folder / "pictures"
    pictures.mkdir()
    rows = ["path,label"]
    for number in range(COUNT + 2):
        blocks = np.random.default_rng(number).integers(0, 256, (4, 4, 3), np.uint8)
        PillowImage.fromarray(blocks.repeat(8, 0).repeat(8, 1)).save(pictures / f"{number:02}.png")
        rows.append(f"{number:02}.png,{('even', 'odd')[number % 2]}")
    (pictures / "labels.csv").write_text("\n".join(rows))
    paths = sorted(pictures.glob("*.png"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_ENCODER_FOLDER", str(folder / "encoders"))
        cbir("encoder", "get", "hf:org/clip", "--from", folder / "model")
        labels = ["--labels", pictures / "labels.csv", "--jobs", 1]
        cbir("index", *paths[:COUNT], "--profile", "hf:org/clip", "--collection", folder / "col", *labels)
    processor = transformers.AutoImageProcessor.from_pretrained(folder / "model")
    inputs = processor([PillowImage.open(path) for path in paths], return_tensors="pt")
    with torch.no_grad():
        images = model.get_image_features(**inputs).pooler_output.double().numpy()
        words = tokenizer(SENTENCES, padding=True, return_tensors="pt")
        words.pop("token_type_ids", None)
        texts = model.get_text_features(**words).pooler_output.double().numpy()
    return folder, unit(texts) @ unit(images).T


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def own_folder(world, monkeypatch):
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(world[0] / "encoders"))


@pytest.fixture
def collection(world):
    with Collection(world[0] / "col") as opened:
        yield opened


def number_of(collection, image_id):
    return int(Path(collection.record(image_id).source).stem)


def by_text(collection, text, **request):
    answer = Searcher(collection, settings.load()).by_text(text, Request(**request), Stopwatch())
    return answer, [number_of(collection, hit.image_id) for hit in answer.results]


@pytest.mark.slow
def test_scores_are_cosines_of_the_library(world, collection):
    assert can_search_by_text(collection.profile)
    for text, cosines in zip(SENTENCES, world[1][:, :COUNT], strict=True):
        answer, numbers = by_text(collection, text, k=COUNT)
        scores = np.array([hit.score for hit in answer.results])
        assert scores == pytest.approx(cosines[numbers], abs=2e-4)
        assert numbers == np.argsort(-cosines).tolist()
        assert [hit.distance for hit in answer.results] == pytest.approx(np.sqrt(2 - 2 * scores), abs=1e-5)
        assert (answer.rerank.method, answer.query.format) == ("none", "text")


@pytest.mark.slow
def test_projected_vectors_would_give_another_order(world, collection):
    view = collection.view()
    encoder = text_encoder(collection.profile)
    for text, cosines in zip(SENTENCES, world[1][:, :COUNT], strict=True):
        query = view.statistics.normalise(encoder.describe_text(text))
        order = np.argsort(view.gallery.distances(query))
        assert np.argsort(-cosines).tolist() != order.tolist()


@pytest.mark.slow
def test_only_images_that_may_be_answers(world, collection):
    cosines = world[1][0, :COUNT]
    odd = [number for number in np.argsort(-cosines).tolist() if number % 2]
    assert by_text(collection, SENTENCES[0], k=5, where=["label=odd"])[1] == odd[:5]
    limited = LimitedCollection(collection, [parse_filter("label=odd")])
    assert by_text(limited, SENTENCES[0], k=COUNT)[1] == odd
    limited.close()
    assert by_text(collection, SENTENCES[0], k=5, where=["label=none"])[1] == []


@pytest.mark.slow
def test_images_added_and_deleted_since(world, collection, tmp_path):
    shutil.copytree(world[0] / "col", tmp_path / "col")
    with Collection(tmp_path / "col") as copy:
        searcher = Searcher(copy, settings.load())
        before = searcher.by_text(SENTENCES[1], Request(k=COUNT), Stopwatch()).results
        with copy.writer() as writer:
            writer.delete([before[0].image_id])
        cbir("index", world[0] / "pictures" / f"{COUNT}.png", "--collection", tmp_path / "col", "--jobs", 1)
        after = searcher.by_text(SENTENCES[1], Request(k=COUNT + 2), Stopwatch()).results
        assert len(after) == COUNT
        assert before[0].image_id not in [hit.image_id for hit in after]
        cosines = np.delete(world[1][1, : COUNT + 1], number_of(collection, before[0].image_id))
        assert [hit.score for hit in after] == pytest.approx(np.sort(cosines)[::-1], abs=2e-4)
        with copy.writer() as writer:
            writer.compact()
        assert [
            hit.score for hit in searcher.by_text(SENTENCES[1], Request(k=COUNT), Stopwatch()).results
        ] == [hit.score for hit in after]


@pytest.mark.slow
def test_command_line_and_http(world, collection):
    answer, _ = by_text(collection, SENTENCES[2], k=3)
    expected = json.loads(answer.model_dump_json())["results"]
    printed = cbir(
        "search", "--text", SENTENCES[2], "--collection", world[0] / "col", "-k", 3, "--format", "json"
    )
    hits = json.loads(printed)["results"]
    assert all(Path(hit["source"]).exists() for hit in hits)  # over HTTP it is not told
    assert [hit | {"source": None} for hit in hits] == expected
    lines = cbir("search", "--text", "x", "--collection", world[0] / "col", "-k", 1, "--format", "trec")
    assert lines.startswith("text Q0 ")
    client = create_app(world[0] / "col", settings.load()).test_client()
    response = client.post("/v1/search", json={"text": SENTENCES[2], "k": 3})
    assert response.json["results"] == expected
    facts = {name: value for name, value in response.json["query"].items() if value is not None}
    assert facts == {"width": 0, "height": 0, "format": "text"}
    assert page_facts(client)["by_text"] is True
    refused = [
        {"image_id": expected[0]["image_id"]}, {"examples": [expected[0]["image_id"]]}, {"rerank": "auto"},
        {"feedback": [{"image_id": expected[0]["image_id"], "relevance": 1}]}, {"text": ""}, {"text": " "},
        {"text": "x" * 2001}, {"region": [0, 0, 8, 8]},
    ]  # fmt: skip
    for more in refused:
        assert client.post("/v1/search", json={"text": "knee"} | more).status_code == 422, more
    in_address = client.post("/v1/search?text=knee", json={})
    assert (in_address.status_code, "logs" in in_address.json["detail"]) == (422, True)


@pytest.mark.slow
def test_refusals_on_the_command_line(world):
    reasons = {
        ("--text", ""): "text: is empty",
        ("--text", "x" * 2001): "text: has 2001 characters, and at most 2000",
        (
            "--text",
            "x",
            "--rerank",
            "auto",
        ): "a search by text is not re-ranked; leave auto out, or send none",
        ("--text", "x", "id:y"): "--text: search with it, or with images and --vector",
        (): "search with images, --text or --vector",
        ("--text", "x", "--frame", "1"): "--frame is for images; leave it out with --text",
        ("--text", "x", "--parameter", "P=9"): "none has no parameter 'P'",
        ("--text", "x", "--relevant", "y"): "text: examples and feedback go with images",
    }
    for arguments, reason in reasons.items():
        with pytest.raises(InvalidInput, match=reason):
            cbir("search", *arguments, "--collection", world[0] / "col")


@pytest.mark.slow
def test_a_search_needs_neither_torch_nor_transformers(world, collection):
    code = (
        "import sys; sys.modules.update(torch=None, transformers=None, open_clip=None, timm=None); "
        "from cbir.api.main import main; main()"
    )
    options = [
        "search",
        "--text",
        SENTENCES[0],
        "--collection",
        world[0] / "col",
        "-k",
        "2",
        "--format",
        "json",
    ]
    command = [sys.executable, "-c", code, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    hits = by_text(collection, SENTENCES[0], k=2)[0].results
    assert [hit["image_id"] for hit in json.loads(done.stdout)["results"]] == [hit.image_id for hit in hits]


@pytest.mark.slow
def test_without_tokenizers_the_extra_is_named(collection, monkeypatch):
    load_text_tower.cache_clear()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert not can_search_by_text(collection.profile)
    with pytest.raises(InvalidInput, match=r"^search by text needs tokenizers: pip install '\.\[text\]'"):
        by_text(collection, "knee")


@pytest.mark.slow
def test_damaged_towers_are_refused(world, collection, monkeypatch, tmp_path):
    shutil.copytree(world[0] / "encoders", tmp_path / "encoders")
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(tmp_path / "encoders"))
    card = encoders.get("hf:org/clip").card
    network, tokenizer = encoder_files.text_paths(tmp_path / "encoders", card)
    network.write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=r"text.onnx is not the file that its card describes"):
        by_text(collection, "knee")
    tokenizer.unlink()
    assert not can_search_by_text(collection.profile)
    network.unlink()
    with pytest.raises(NotFound, match=r"there are no weights .*text.onnx"):
        by_text(collection, "knee")
