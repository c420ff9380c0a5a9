"""Vectors of images over HTTP: read with the scope `originals`, searched with, and in batches."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from werkzeug.datastructures import MultiDict

from cbir import settings
from cbir.search.search_options import MAX_BATCH
from cbir.store import Collection
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service.conftest import problem

BATCH = "/v1/search/batch"


def search(client: FlaskClient, **body: Any) -> Any:
    return client.post("/v1/search", json=body)


def image_ids(answer: dict[str, Any]) -> list[str]:
    return [hit["image_id"] for hit in answer["results"]]


def vectors(client: FlaskClient, ids: list[str], **values: Any) -> Any:
    return client.post("/v1/vectors", json={"ids": ids, **values})


def test_vectors_are_those_of_the_collection(client: FlaskClient, indexed: Path, ids: list[str]) -> None:
    asked = [ids[4], ids[0], ids[4]]
    with Collection(indexed) as collection:
        view, profile = collection.view(), collection.profile
        stored = np.stack([collection.vector(name) for name in asked])
        expected = {True: stored, False: np.stack([view.statistics.normalise(vector) for vector in stored])}
    for raw, values in expected.items():
        body = vectors(client, asked, raw=raw).json
        assert [item["image_id"] for item in body["items"]] == asked
        assert np.array_equal(np.array([item["values"] for item in body["items"]], np.float32), values)
        assert (body["profile"], body["profile_hash"], body["raw"]) == (profile.name, profile.hash, raw)
        assert body["dimensions"] == values.shape[1]
        one = client.get(f"/v1/images/{ids[0]}/vector?raw={json.dumps(raw)}").json
        assert one["items"] == body["items"][1:2]
    assert client.get(f"/v1/images/{ids[0]}/vector").json["raw"] is False


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"ids": []}, "ids"),
        ({"ids": ["x"] * 101}, "ids"),
        ({}, "ids"),
        ({"ids": "x"}, "ids"),
        ({"ids": [1]}, "ids"),
    ],
)
def test_wrong_requests_for_vectors(client: FlaskClient, body: dict[str, Any], detail: str) -> None:
    assert detail in problem(client.post("/v1/vectors", json=body), 422)


def test_unknown_images_have_no_vectors(client: FlaskClient, ids: list[str]) -> None:
    assert "no image nobody" in problem(client.get("/v1/images/nobody/vector"), 404)
    assert "no image nobody" in problem(vectors(client, [ids[0], "nobody"]), 404)


def test_vectors_need_the_scope_originals_and_are_logged(
    indexed: Path, ids: list[str], tmp_path: Path
) -> None:
    tokens = TokenStore(tmp_path / "state")
    app = create_app(indexed, settings.load(require_tokens=True, state_folder=tmp_path / "state"))
    for scope, status in ((Scope.search, 403), (Scope.annotate, 403), (Scope.originals, 200)):
        client = app.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {tokens.create((scope,))[1]}"
        assert client.get(f"/v1/images/{ids[0]}/vector").status_code == status
        assert vectors(client, ids[:2]).status_code == status
    lines = [json.loads(line) for line in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
    read = [(line["action"], line["images"]) for line in lines if line["status"] == 200]
    assert read == [("vector", [ids[0]]), ("vector", ids[:2])]


def test_a_search_by_vector_is_that_by_its_image(client: FlaskClient, ids: list[str]) -> None:
    body = vectors(client, ids[:2], raw=True).json
    first, second = (item["values"] for item in body["items"])
    for method in ("none", "auto"):
        found = search(client, vector=first, k=6, rerank=method, profile=body["profile_hash"]).json
        expected = search(client, image_id=ids[0], k=5, rerank=method).json
        assert image_ids(found)[0] == ids[0], "the image with this vector is a result"
        assert found["results"][0]["distance"] < 1e-4
        assert {*image_ids(found)[1:]} & {*image_ids(expected)}
    assert found["query"]["format"] == "vector"
    assert found["query"]["image_id"] is None
    nearest = image_ids(search(client, image_id=ids[0], k=5, rerank="none").json)
    assert image_ids(search(client, vector=first, k=6, rerank="none").json)[1:] == nearest
    both = search(client, vector=[first, second], k=100).json
    assert {*image_ids(both)[:2]} == {*ids[:2]}
    mixed = search(client, vector=first, image_id=ids[1], k=100).json
    assert ids[1] not in image_ids(mixed)
    assert ids[0] in image_ids(mixed)


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"vector": []}, "vector"),
        ({"vector": [[]]}, "vector"),
        ({"vector": [1.0, 2.0]}, "vector: the profile huang2012 has vectors of .* finite numbers, not 1x2"),
        ({"vector": [[1.0], [1.0, 2.0]]}, "all of one length"),
        ({"vector": [[1.0]] * 21}, "vector"),
        ({"vector": [1e18] * 168}, "too large to compare"),
        ({"vector": "1,2"}, "vector"),
        ({"vector": [[[1.0]]]}, "vector"),
        ({"vector": ["x"]}, "vector"),
        ({"profile": "lite0-max"}, "profile: the collection has the profile huang2012"),
        ({"text": "knee"}, "search with one of them"),
        (
            {"vector": None, "profile": "huang2012", "image_id": "x"},
            "profile: says what `vector` was computed with",
        ),
    ],
)
def test_wrong_vectors_are_refused(
    client: FlaskClient, ids: list[str], change: dict[str, Any], detail: str
) -> None:
    values = vectors(client, ids[:1], raw=True).json["items"][0]["values"]
    text = problem(search(client, **{"vector": values, **change}), 422)
    assert re.search(detail, text), text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e39", "1e30", "1e999"])
def test_values_that_cannot_be_compared_are_refused(client: FlaskClient, ids: list[str], value: str) -> None:
    values = vectors(client, ids[:1], raw=True).json["items"][0]["values"]
    body = json.dumps({"vector": values}).replace(str(values[0]), value, 1)
    assert value in body
    assert "vector" in problem(client.post("/v1/search", data=body, content_type="application/json"), 422)


def test_parameters_of_results_are_checked(client: FlaskClient, ids: list[str]) -> None:
    for wrong in (
        {"score_threshold": "high"}, {"max_distance": -1}, {"group_by": ""}, {"group_size": 0}, {"group_size": 101},
        {"k": 1000, "group_by": "label", "group_size": 2},
    ):  # fmt: skip
        assert next(reversed(wrong)) in problem(search(client, image_id=ids[0], **wrong), 422)
    assert "label 'lable'; did you mean 'label'" in problem(
        search(client, image_id=ids[0], where="lable=odd"), 422
    )
    assert "label 'lable'" in problem(search(client, image_id=ids[0], group_by="lable"), 422)
    assert "label 'lable'" in problem(client.get("/v1/images?where=lable=odd"), 422)


def test_groups_and_thresholds_by_json_form_and_address(
    client: FlaskClient, ids: list[str], pictures: list[Path]
) -> None:
    by_json = search(client, image_id=ids[0], k=2, group_by="label", group_size=2, max_distance=1e6).json
    assert [hit["group"]["key"] for hit in by_json["results"]] in (
        ["even"] * 2 + ["odd"] * 2,
        ["odd"] * 2 + ["even"] * 2,
    )
    assert by_json["grouping"] == {"by": "label", "size": 2, "depth": len(ids) - 1}
    assert sum(hit["group"]["more"] for hit in by_json["results"][::2]) == len(ids) - 1 - 4
    form = {"k": "2", "group_by": "label", "group_size": "2", "max_distance": "1e6"}
    by_form = client.post(
        "/v1/search", data={"image": (io.BytesIO(pictures[0].read_bytes()), "a"), **form}
    ).json
    address = "&".join(f"{name}={value}" for name, value in form.items())
    by_address = client.post(f"/v1/search?{address}", json={"image_id": ids[0]}).json
    assert by_json["results"] == by_form["results"] == by_address["results"]
    plain = search(client, image_id=ids[0], k=2).json
    assert plain["grouping"] is None
    assert plain["results"][0]["group"] is None


# Batches


def test_a_batch_answers_as_single_searches_do(client: FlaskClient, ids: list[str]) -> None:
    values = vectors(client, ids[:1], raw=True).json["items"][0]["values"]
    queries = [
        {"image_id": ids[3], "k": 3},
        {"vector": values, "k": 2, "where": "label=odd"},
        {"examples": ids[:2]},
    ]
    items = client.post(BATCH, json={"queries": queries}).json["items"]
    for query, item in zip(queries, items, strict=True):
        assert item["problem"] is None
        assert item["answer"]["results"] == search(client, **query).json["results"]


def test_a_bad_query_does_not_lose_the_others(client: FlaskClient, ids: list[str]) -> None:
    queries = [
        {"image_id": ids[0]},
        {"image_id": "nobody"},
        {"vector": [1.0]},
        {"image_id": ids[0], "k": 10**6},
        {},
    ]
    items = client.post(BATCH, json={"queries": [*queries, {"image_id": ids[1]}]}).json["items"]
    assert [bool(item["answer"]) for item in items] == [True, False, False, False, False, True]
    for query, item in zip(queries[1:], items[1:-1], strict=True):
        single = search(client, **query)
        assert item["problem"] == single.json
        assert single.status_code == item["problem"]["status"]


def test_a_batch_of_files(client: FlaskClient, pictures: list[Path]) -> None:
    contents = [pictures[-1].read_bytes(), b"", b"no image", pictures[-2].read_bytes()]
    form = MultiDict([("image", (io.BytesIO(data), "image")) for data in contents])
    form.update({"k": "3", "rerank": "none", "where": "label=odd"})
    items = client.post(BATCH, data=form).json["items"]
    assert [item["problem"] and item["problem"]["status"] for item in items] == [None, 422, 422, None]
    for path, item in ((pictures[-1], items[0]), (pictures[-2], items[3])):
        single = {
            "image": (io.BytesIO(path.read_bytes()), "a"),
            "k": "3",
            "rerank": "none",
            "where": "label=odd",
        }
        assert item["answer"]["results"] == client.post("/v1/search", data=single).json["results"]


def test_batches_are_bounded(client: FlaskClient, ids: list[str], pictures: list[Path]) -> None:
    one = {"image_id": ids[0], "k": 1}
    assert "queries" in problem(client.post(BATCH, json={"queries": []}), 422)
    assert "queries" in problem(client.post(BATCH, json={"queries": [one] * (MAX_BATCH + 1)}), 422)
    many = {"queries": [{"image_id": ids[0], "k": 1000}] * 11}
    assert "11 queries ask for 11000 results together" in problem(client.post(BATCH, json=many), 422)
    assert "queries.0.kk" in problem(client.post(BATCH, json={"queries": [{"kk": 1}]}), 422)
    form = MultiDict([("image", (io.BytesIO(b"x"), "image"))] * (MAX_BATCH + 1))
    assert f"at most {MAX_BATCH} files" in problem(client.post(BATCH, data=form), 422)


def test_each_query_counts_for_the_rate_limit_and_is_logged(
    indexed: Path, ids: list[str], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    active = settings.load(require_tokens=True, state_folder=state, requests_per_minute=3)
    client = create_app(indexed, active).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TokenStore(state).create((Scope.search,))[1]}"
    queries = [{"image_id": name, "k": 1} for name in ids[:5]]
    items = client.post(BATCH, json={"queries": queries}).json["items"]
    assert [item["problem"] and item["problem"]["status"] for item in items] == [None, None, None, 429, 429]
    (line,) = map(json.loads, (state / "audit.jsonl").read_text().splitlines())
    assert line["action"] == "search"
    assert line["images"][::2] == ids[:3]


def test_a_batch_ends_before_the_server_cuts_it_off(indexed: Path, ids: list[str]) -> None:
    client = create_app(indexed, settings.load(request_seconds=1e-6)).test_client()
    items = client.post(BATCH, json={"queries": [{"image_id": ids[0]}] * 3}).json["items"]
    assert [item["problem"] and item["problem"]["status"] for item in items] == [None, 504, 504]


# Labels


def test_facets_are_the_labels_of_the_images(client: FlaskClient, ids: list[str]) -> None:
    records = client.get("/v1/images?limit=1000").json["items"]
    items = client.get("/v1/labels").json["items"]
    assert {item["key"]: item["images"] for item in items} == {"label": len(ids), "severity": len(ids)}
    odd = sum(record["labels"]["label"] == "odd" for record in records)
    page = client.get("/v1/labels/label").json
    assert {item["value"]: item["images"] for item in page["items"]} == {"odd": odd, "even": len(ids) - odd}
    assert (page["values"], page["minimum"], page["next"]) == (2, None, None)
    severities = sorted(
        float(record["labels"]["severity"]) for record in records if record["labels"]["label"] == "odd"
    )
    page = client.get("/v1/labels/severity?where=label=odd&limit=4").json
    assert (page["minimum"], page["maximum"]) == (severities[0], severities[-1])
    values = []
    while True:
        values += [float(item["value"]) for item in page["items"]]
        if page["next"] is None:
            break
        page = client.get(f"/v1/labels/severity?where=label=odd&limit=4&cursor={page['next']}").json
    assert sorted(values) == severities
    assert client.get("/v1/labels?where=label=odd").json["items"][0] == {
        "key": "label",
        "images": odd,
        "values": 1,
    }


def test_keys_with_a_slash_and_unknown_keys(writable: Path, ids: list[str]) -> None:
    with Collection(writable) as collection, collection.writer() as writer:
        writer.set_labels(ids[0], {"a//b c": "x"})
    client = create_app(writable, settings.load()).test_client()
    assert client.get("/v1/labels/a%2F%2Fb%20c").json["items"] == [{"value": "x", "images": 1}]
    assert "did you mean 'severity'" in problem(client.get("/v1/labels/severty"), 422)
    assert "did you mean 'label'" in problem(client.get("/v1/labels?where=lable=x"), 422)
    assert "cursor" in problem(client.get("/v1/labels/label?cursor=-1"), 400)


def test_a_batch_names_its_collection_once(indexed: Path, writable: Path, ids: list[str]) -> None:
    with Collection(writable) as collection, collection.writer() as writer:
        writer.delete(ids[1:])
    client = create_app([indexed, writable], settings.load()).test_client()
    queries = [{"image_id": ids[0], "k": 2}, {"image_id": ids[0], "k": 2, "collection": indexed.name}]
    for answer in (
        client.post(BATCH, json={"queries": queries, "collection": writable.name}),
        client.post(f"{BATCH}?collection={writable.name}", json={"queries": queries}),
    ):
        assert [len(item["answer"]["results"]) for item in answer.json["items"]] == [0, 2]
    assert (
        f"/collections/{indexed.name}/" in answer.json["items"][1]["answer"]["results"][0]["links"]["image"]
    )
