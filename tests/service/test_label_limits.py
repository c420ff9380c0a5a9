"""Bounds of labels that requests may reach together, not each by itself."""

import json
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection
from service.app import create_app
from service.collections import label_limits
from tests.service.conftest import problem


@pytest.fixture
def client(writable: Path) -> FlaskClient:
    return create_app(writable, settings.load()).test_client()


def patch(client: FlaskClient, image_id: str, labels: dict[str, str | None]):
    return client.patch(f"/v1/images/{image_id}", json={"labels": labels})


def test_number_of_labels_of_an_image_is_bounded(client: FlaskClient, ids: list[str]) -> None:
    count = len(client.get(f"/v1/images/{ids[0]}").json["labels"])
    for start in range(0, label_limits.MAX_LABELS - count, 50):
        added = range(start, min(start + 50, label_limits.MAX_LABELS - count))
        assert patch(client, ids[0], {f"k{n}": "v" for n in added}).status_code == 200
    assert "at most 200 labels" in problem(patch(client, ids[0], {"more": "v"}), 422)
    assert patch(client, ids[0], {"k0": "other", "k1": None}).status_code == 200
    assert patch(client, ids[0], {"more": "v"}).status_code == 200
    many = client.patch("/v1/images", json={"ids": ids[:3], "labels": {"k1": "v"}})
    assert "at most 200 labels" in problem(many, 422)
    assert "k1" not in client.get(f"/v1/images/{ids[1]}").json["labels"], "all of them or none"


def test_bytes_of_labels_of_an_image_are_bounded(client: FlaskClient, ids: list[str]) -> None:
    statuses = [patch(client, ids[0], {f"k{n}": "é" * 1000}).status_code for n in range(40)]
    assert set(statuses[:30]) == {200}
    assert statuses[-1] == 422
    assert len(client.get(f"/v1/images/{ids[0]}").data) < 2 * label_limits.MAX_LABEL_BYTES


def test_labels_above_the_bounds_can_be_read_and_removed(writable: Path, ids: list[str]) -> None:
    with Collection(writable) as collection, collection.writer() as writer:
        writer.set_labels(ids[0], {f"k{n}": "v" * 1000 for n in range(300)})
    client = create_app(writable, settings.load()).test_client()
    assert len(client.get(f"/v1/images/{ids[0]}").json["labels"]) >= 300
    assert patch(client, ids[0], {"k0": None, "k1": "w"}).status_code == 200
    problem(patch(client, ids[0], {"another": "v", "more": "v"}), 422)


def test_keys_of_a_collection_are_bounded(
    client: FlaskClient, ids: list[str], pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = len(client.get("/v1/labels").json["items"])
    monkeypatch.setattr(label_limits, "MAX_KEYS", known + 2)
    assert patch(client, ids[0], {"a": "1", "b": "1"}).status_code == 200
    assert "at most" in problem(patch(client, ids[1], {"c": "1"}), 422)
    assert patch(client, ids[1], {"a": "2"}).status_code == 200
    new = {"image": pictures[-1].open("rb"), "labels": '{"d": "1"}'}
    assert "d would be a new key" in problem(client.post("/v1/images", data=new), 422)


def test_labels_of_an_added_image_are_bounded(client: FlaskClient, pictures: list[Path]) -> None:
    labels = "{" + ", ".join(f'"k{n}": "v"' for n in range(201)) + "}"
    answer = client.post("/v1/images", data={"image": pictures[-1].open("rb"), "labels": labels})
    assert "at most 200 labels" in problem(answer, 422)


@pytest.mark.parametrize("value", [" benign", "benign ", "benign\n", " "])
def test_values_that_no_filter_finds_are_refused(
    client: FlaskClient, ids: list[str], pictures: list[Path], value: str
) -> None:
    labels: dict[str, str | None] = {"finding": value}
    new = {"image": pictures[-1].open("rb"), "labels": json.dumps(labels)}
    for answer in (
        patch(client, ids[0], labels),
        client.patch("/v1/images", json={"ids": ids[:1], "labels": labels}),
        client.post("/v1/images", data=new),
    ):
        assert "the value of finding begins or ends with white space; leave it out" in problem(answer, 422)
