"""Search for a region anywhere: command, Python, HTTP; what is refused; deleted, erased and later images."""

from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from cbir import settings
from cbir.api.collection_search import open as open_collection
from cbir.api.query_input import read_region_query
from cbir.api.region_cells import compute_cells
from cbir.errors import CollectionDamaged, InvalidInput
from cbir.ingest.query_file import WHOLE_FILE
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from cbir.store.limited_collection import LimitedCollection
from cbir.store.snapshot.derived_files import CELLS, PROJECTION, drop_cells, read_cells
from service.app import create_app
from tests.service.conftest import cbir, index_once, problem

pytestmark = pytest.mark.slow

REGION = [16, 16, 24, 24]


@pytest.fixture(scope="module")
def folder(pictures, tmp_path_factory):
    made = index_once(pictures, tmp_path_factory, "indexed-lite0", "--profile", "lite0")
    with Collection(made) as collection:
        compute_cells(collection)
    return made


@pytest.fixture(scope="module")
def records(folder):
    with Collection(folder) as collection:
        return [record for _, record in collection.iterate()]


@pytest.fixture(scope="module")
def of_cells(folder):
    return create_app(folder, settings.load()).test_client()


@pytest.fixture
def own(folder, tmp_path):
    return copytree(folder, tmp_path / "own")


def ask(client, records, **fields):
    return client.post(
        "/v1/search", json={"image_id": records[0].image_id, "region": REGION, "anywhere": True} | fields
    )


def test_results_have_a_place_and_fall(of_cells, records):
    answer = ask(of_cells, records, k=5).json
    scores = [hit["score"] for hit in answer["results"]]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert records[0].image_id not in [hit["image_id"] for hit in answer["results"]]
    for hit in answer["results"]:
        box = hit["match"]
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 1.0001
        assert 0 <= box["y"] <= box["y"] + box["height"] <= 1.0001
        assert min(box["width"], box["height"]) > 0
        assert hit["distance"] == pytest.approx(np.sqrt(2 - 2 * hit["score"]), abs=1e-4)
    assert answer["rerank"]["method"] == "none"
    assert answer["rerank"]["notes"] == []
    assert answer["query"]["likeness"] is None


def test_a_method_that_is_named_is_not_applied_and_the_answer_says_so(of_cells, records):
    assert "not re-ranked" in ask(of_cells, records, rerank="aqe").json["rerank"]["notes"][0]


def test_the_image_itself_is_found_by_a_changed_copy(folder, records):
    from cbir.images import Image, read_images

    pixels = next(iter(read_images(Path(records[3].source)))).pixels
    darker = Image((pixels * 0.8).astype(np.uint8))
    with open_collection(folder) as opened:
        hits = opened.search(darker, region=REGION, anywhere=True, k=3)
    assert hits[0].id == records[3].image_id
    assert hits[0].match is not None
    centre = hits[0].match.x + hits[0].match.width / 2
    assert centre == pytest.approx((REGION[0] + REGION[2] / 2) / darker.width, abs=0.12)


def test_python_http_and_upload_agree(folder, of_cells, records):
    by_id = ask(of_cells, records, k=4).json["results"]
    with open_collection(folder) as opened:
        own = opened.search(f"id:{records[0].image_id}", region=tuple(REGION), anywhere=True, k=4)
    with Path(records[0].source).open("rb") as file:
        fields = {"image": (file, "image"), "region": "16,16,24,24", "anywhere": "true", "k": "4"}
        uploaded = of_cells.post("/v1/search", data=fields).json["results"]
    assert [hit["image_id"] for hit in uploaded] == [hit.id for hit in own]
    assert by_id[0]["score"] == pytest.approx(own[0].score, abs=0.05)  # a thumbnail is used over HTTP


def test_filters_hold(of_cells, records):
    key, value = next(iter(records[0].labels.items()))
    found = ask(of_cells, records, where=[f"{key}={value}"], k=50).json["results"]
    assert found
    assert all(hit["labels"][key] == value for hit in found)


def test_a_region_of_one_pixel_is_searched_for(of_cells, records):
    assert ask(of_cells, records, region=[30, 30, 1, 1]).status_code in (200, 422)


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"region": None}, "region"),
        ({"image_id": None, "text": "chest", "region": None}, "region"),
        ({"region": [0, 0, 10**6, 5]}, "not inside the image"),
        ({"examples": ["0" * 32]}, "examples"),
    ],
)
def test_what_does_not_fit_is_refused(of_cells, records, change, detail):
    sent = {"image_id": records[0].image_id, "region": REGION, "anywhere": True} | change
    body = {name: value for name, value in sent.items() if value is not None}
    assert detail in problem(of_cells.post("/v1/search", json=body), 422)


def test_a_blank_region_is_refused(folder):
    with open_collection(folder) as opened, pytest.raises(InvalidInput, match="even grey"):
        opened.search(np.full((64, 64), 90, np.uint8), region=(8, 8, 20, 20), anywhere=True)


def test_without_cells_the_command_is_named(own):
    drop_cells(own)
    with Collection(own) as collection:
        image_id = next(record.image_id for _, record in collection.iterate())
    body = {"image_id": image_id, "region": REGION, "anywhere": True}
    client = create_app(own, settings.load()).test_client()
    assert "cbir collection regions" in problem(client.post("/v1/search", json=body), 422)


def test_other_descriptors_have_no_region_search(client, ids, indexed):
    body = {"image_id": ids[0], "region": REGION, "anywhere": True}
    assert "encoders" in problem(client.post("/v1/search", json=body), 422)
    with Collection(indexed) as collection, pytest.raises(InvalidInput, match="encoders"):
        compute_cells(collection)


def test_the_command_continues_and_drops_images_that_are_gone(own, records):
    path = next((own / CELLS).glob("*.npy"))
    with Collection(own) as collection:
        numbers = read_cells(own).numbers()
        with collection.writer() as writer:
            writer.delete([records[1].image_id])
        path.unlink()  # as after an interruption
        counts = compute_cells(collection)
        assert counts.images == counts.added == len(numbers) - 1
        again = compute_cells(collection)
        assert (again.images, again.added) == (counts.images, 0)
        with collection.writer() as writer:
            writer.delete([records[2].image_id])
        assert compute_cells(collection).images == len(numbers) - 2


def test_images_without_cells_are_named(own, records):
    next((own / CELLS).glob("*.npy")).unlink()
    with open_collection(own) as opened:
        hits = opened.search(f"id:{records[0].image_id}", region=tuple(REGION), anywhere=True)
    assert len(hits) == 0
    assert "cbir collection regions" in hits.rerank.notes[0]


def test_an_interrupted_run_leaves_no_part(own):
    next((own / CELLS).glob("*.npy")).unlink()

    def interrupt(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with Collection(own) as collection:
        with pytest.raises(KeyboardInterrupt):
            compute_cells(collection, interrupt)
        assert len(read_cells(own).numbers()) == 0
        assert compute_cells(collection).added > 3


def test_damaged_cells_are_reported(own):
    (own / CELLS / PROJECTION).write_bytes(b"no archive")
    with pytest.raises(CollectionDamaged, match="cbir collection regions"):
        read_cells(own)


def test_command_line(folder, records):
    printed = cbir("collection", "regions", "--collection", folder)
    assert "images" in printed
    found = cbir(
        "search", f"id:{records[0].image_id}", "--region", "16,16,24,24", "--anywhere", "-k", "2",
        "--collection", folder, "--format", "json",
    )  # fmt: skip
    assert '"match":{"x"' in found


def test_limited_callers_find_only_images_that_they_see(folder, records):
    key, value = next(iter(records[0].labels.items()))
    with Collection(folder) as whole, open_collection(folder) as opened:
        limited = LimitedCollection(whole, whole.conditions([f"{key}={value}"]))
        query = read_region_query(opened, f"id:{records[0].image_id}", tuple(REGION), WHOLE_FILE)
        answer = Searcher(limited, settings.load()).by_region(query, Request(k=50), Stopwatch())
    seen = {record.image_id for record in records if record.labels.get(key) == value}
    assert {hit.image_id for hit in answer.results} == seen - {records[0].image_id}
    assert answer.rerank.notes == ()  # nor are others counted


def test_erasing_a_patient_deletes_all_cells(own):
    with Collection(own) as collection, collection.writer() as writer:
        writer.erase_patient(["0" * 32])
    assert read_cells(own) is None


def test_erasing_a_patient_ends_a_run(own):
    next((own / CELLS).glob("*.npy")).unlink()

    def erase(done, total):
        drop_cells(own)

    with Collection(own) as collection, pytest.raises(InvalidInput, match="run it again"):
        compute_cells(collection, erase)
    assert read_cells(own) is None
