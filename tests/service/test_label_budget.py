"""Bound of the labels of one answer, whatever the number of its images."""

import json
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection
from cbir.store.records import record_rows
from service.app import create_app
from service.http import responses
from service.routes import image_set_routes
from tests.cbir.store.test_search_statements import asked
from tests.service.conftest import problem

LABELS = {f"k{n}": "v" * 900 for n in range(4)}  # 3.6 kB
BUDGET = 10_000  # bytes: the labels of two of these images


@pytest.fixture
def client(writable: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    """Client of a service whose images have long labels but for one."""
    with Collection(writable) as collection, collection.writer() as writer:
        writer.set_labels_of(ids[:-1], LABELS)
    monkeypatch.setattr(responses, "MAX_ANSWER_LABELS", BUDGET)
    return create_app(writable, settings.load()).test_client()


def size(labels: dict[str, str]) -> int:
    return len(json.dumps(labels))


def left_out(images: list[dict]) -> int:
    """Number of images without labels; those with labels are within the budget."""
    assert all(not image["labels"] for image in images if image["labels_left_out"])
    assert sum(size(image["labels"]) for image in images if image["labels"]) <= BUDGET
    return sum(image["labels_left_out"] for image in images)


def test_labels_of_a_search_are_bounded_with_a_note(client: FlaskClient, ids: list[str]) -> None:
    answer = client.post("/v1/search", json={"image_id": ids[0], "k": 20}).json
    count = left_out(answer["results"])
    assert len(answer["results"]) == 20
    assert 17 <= count <= 18
    assert answer["results"][0]["labels"]["k0"], "the best results have theirs"
    note = f"labels of {count} results are left out"
    assert sum(text.startswith(note) for text in answer["rerank"]["notes"]) == 1
    assert answer["agreement"], "which is of all labels"
    small = client.post("/v1/search", json={"image_id": ids[0], "k": 2}).json
    assert left_out(small["results"]) == 0
    assert not any("labels of" in text for text in small["rerank"]["notes"])
    hidden = next(hit["image_id"] for hit in answer["results"] if hit["labels_left_out"])
    assert client.get(f"/v1/images/{hidden}").json["labels"].keys() >= LABELS.keys()


@pytest.mark.features
def test_labels_that_were_not_read_are_counted_as_left_out(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rows, "BLOCK", 1)
    answer = client.post("/v1/search", json={"image_id": ids[0], "k": len(ids) - 1}).json
    assert ids[-1] in [hit["image_id"] for hit in answer["results"][3:]], "which has short labels"
    flags = [hit["labels_left_out"] for hit in answer["results"]]
    assert flags == [False] * 2 + [True] * (len(flags) - 2)
    assert f"labels of {len(flags) - 2} results are left out" in answer["rerank"]["notes"][-1]
    cohort = client.post("/v1/cohorts", json={"title": "cohort", "relevant": ids}).json["id"]
    images = client.get(f"/v1/cohorts/{cohort}").json["images"]
    assert sorted(image["labels_left_out"] for image in images) == [False] * 2 + [True] * (len(ids) - 2)


def test_queries_of_a_batch_share_the_bound(client: FlaskClient, ids: list[str]) -> None:
    queries = [{"image_id": image_id, "k": 2} for image_id in ids[:4]]
    items = client.post("/v1/search/batch", json={"queries": queries}).json["items"]
    assert left_out([hit for item in items for hit in item["answer"]["results"]]) >= 5
    assert not items[0]["answer"]["rerank"]["notes"]
    assert "labels of 2 results are left out" in items[3]["answer"]["rerank"]["notes"][-1]


def test_pages_of_images_end_where_their_labels_would_be_too_long(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for budget in (BUDGET, 1):
        monkeypatch.setattr(responses, "MAX_ANSWER_LABELS", budget)
        pages, cursor = [], None
        while not pages or cursor:
            page = client.get("/v1/images", query_string={"cursor": cursor} if cursor else {}).json
            pages.append([image["image_id"] for image in page["items"]])
            assert all(image["labels"] for image in page["items"])
            cursor = page["next"]
        assert [image_id for page in pages for image_id in page] == ids
        assert max(map(len, pages)) <= (3 if budget > 1 else 1)


def test_records_by_id_are_bounded(client: FlaskClient, ids: list[str]) -> None:
    items = client.post("/v1/images/records", json={"ids": ids[:10]}).json["items"]
    assert left_out(items) == 8


@pytest.mark.features
def test_cases_and_cohorts_are_bounded(client: FlaskClient, ids: list[str]) -> None:
    answers = [
        {"rank": rank, "image_id": image_id, "score": 1.0, "distance": 0.0}
        for rank, image_id in enumerate(ids[1:11], 1)
    ]
    case = {"title": "case", "search": {"image_id": ids[0]}, "method": "none", "answers": answers}
    saved = client.post("/v1/cases", json=case)
    assert saved.status_code == 201, saved.json
    assert left_out(client.get(f"/v1/cases/{saved.json['id']}").json["answers"]) == 8
    cohort = client.post("/v1/cohorts", json={"title": "cohort", "relevant": ids[:10]})
    assert cohort.status_code == 201, cohort.json
    address = f"/v1/cohorts/{cohort.json['id']}"
    assert left_out(client.get(address).json["images"]) == 8
    assert left_out(client.post(f"{address}/batch?count=10").json["items"]) >= 7


def test_a_table_of_labels_is_bounded(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_set_routes, "MAX_EXPORT_TEXT", BUDGET)
    assert "too long for one table" in problem(client.post("/v1/images/export", json={}), 422)
    assert client.post("/v1/images/export", json={"ids": ids[:2]}).status_code == 200


@pytest.mark.parametrize("path", ["records", "list", "export"])
def test_labels_that_do_not_fit_are_not_read(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(record_rows, "BLOCK", 2)
    monkeypatch.setattr(image_set_routes, "READ_AT_ONCE", 2)
    monkeypatch.setattr(image_set_routes, "MAX_EXPORT_TEXT", BUDGET)
    with asked() as statements:
        if path == "records":
            backwards = ids[::-1]
            items = client.post("/v1/images/records", json={"ids": backwards}).json["items"]
            assert [item["image_id"] for item in items] == backwards
            assert [item["labels_left_out"] for item in items[:2]] == [False, False]
        elif path == "list":
            client.get("/v1/images?limit=1000")
        else:
            problem(client.post("/v1/images/export", json={}), 422)
    reads = [statement for statement in statements if "FROM labels WHERE number IN" in statement]
    numbers = [json.loads(read[read.rindex("[") : read.rindex("]") + 1]) for read in reads]
    assert 2 <= sum(map(len, numbers)) <= 6 < len(ids)
