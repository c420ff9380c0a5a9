"""A collection searched through a device: the same answers, filters and deletes as without."""

import pytest
from cbir.gpu import accelerator, device_search
from cbir.gpu.device_search import DeviceSearch
from cbir.gpu.torch_vectors import TorchVectors
from typer.testing import CliRunner

from cbir import rerank, settings
from cbir.errors import InvalidInput
from cbir.main import app
from cbir.rerank.auto import MUTUAL
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection


def searched(collection: Collection, device: DeviceSearch | None, image_id: str, **options):
    searcher = Searcher(collection, settings.load(device="cpu"))
    if device is not None:
        searcher._ranking.whole.device = device
    return searcher.by_id(image_id, Request(**options), Stopwatch())


def asked_for(collection: Collection) -> str:
    return collection.page(0, 20)[7][1].image_id


@pytest.mark.parametrize(
    ("method", "parameters"), [*((name, {}) for name in rerank.names()), ("diffusion", MUTUAL)]
)
@pytest.mark.parametrize("where", [[], ["side=left"]])
def test_the_answer_is_that_of_the_processor(collection, method, parameters, where, monkeypatch):
    monkeypatch.setattr(device_search, "resolve_device", lambda device: "cuda")
    monkeypatch.setattr(accelerator, "TorchVectors", lambda _, half: TorchVectors("cpu", False))
    device, image_id = DeviceSearch(collection.folder, "cuda", least=1), asked_for(collection)
    options = {"k": 15, "rerank": method, "where": where, "parameters": parameters}
    with_it = searched(collection, device, image_id, **options)
    without = searched(collection, None, image_id, **options)
    assert set(with_it.timings_ms) == set(without.timings_ms)
    assert with_it.rerank == without.rerank
    expected = {hit.image_id: hit.score for hit in without.results}
    if (
        method != "diffusion"
    ):  # asked by one of its own images, a neighbour's reach is a matter of the last digit
        for mine, theirs in zip(with_it.results, without.results, strict=True):
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)
    assert len(expected.keys() & {hit.image_id for hit in with_it.results}) >= 13
    assert all(hit.labels["side"] == "left" for hit in with_it.results if where)
    assert image_id not in {hit.image_id for hit in with_it.results}


@pytest.mark.parametrize("kind", ["flat", "faiss-ivf"])
def test_deleted_images_are_not_found_by_an_index(collection, kind):
    alive = {record.image_id for _, record in collection.iterate()}
    answer = searched(
        collection,
        DeviceSearch(collection.folder, "cpu", kind, least=1),
        asked_for(collection),
        k=50,
        rerank="none",
    )
    assert {hit.image_id for hit in answer.results} <= alive
    assert len(answer.results) == 50
    without = searched(collection, None, asked_for(collection), k=50, rerank="none")
    assert [hit.image_id for hit in answer.results] == [hit.image_id for hit in without.results]
    assert any("sample" in note for note in answer.rerank.notes)


def test_cuda_is_refused_where_there_is_none(collection):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(InvalidInput, match="device=cuda"):
        Searcher(collection, settings.load(device="cuda"))
    arguments = ["search", f"id:{asked_for(collection)}", "--collection", str(collection.folder)]
    refused = CliRunner().invoke(app, [*arguments, "--device", "cuda"])
    assert refused.exit_code != 0
    assert CliRunner().invoke(app, [*arguments, "--device", "auto"]).exit_code == 0
    with pytest.raises(InvalidInput, match="device"):
        settings.load(device="tpu")
