"""A body of its own for each kind of search at the address of a collection; older addresses take all together."""

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from cbir.store import Collection
from service.http.search_kinds import FOR_REGION, KINDS, kind_of
from service.http.search_parameters import SearchBody
from tests.service.conftest import problem


@pytest.fixture
def address(client: FlaskClient) -> str:
    return f"/v1/collections/{client.get('/v1/collections').json['default']}/search"


@pytest.fixture(scope="module")
def values(indexed: Path, ids: list[str]) -> list[float]:
    with Collection(indexed) as collection:
        return [float(value) for value in collection.vector(ids[0])]


def test_the_kinds_have_all_fields_of_a_search_together() -> None:
    assert {name for kind in KINDS for name in kind.fields} == SearchBody.model_fields.keys() - {"collection"}
    for kind in KINDS:
        assert {*kind.required, *kind.example} <= {*kind.fields}
        assert kind_of(kind.example) is kind


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"vector": [1.0], "region": [0, 0, 9, 9]}, "region: a search by vector has no region"),
        ({"vector": [1.0], "image_id": "a"}, "image_id: a search by vector has no image_id"),
        ({"vector": [1.0], "text": "knee"}, "text: a search by vector has no text"),
        ({"vector": [1.0], "anywhere": True}, "anywhere: a search by vector has no anywhere"),
        ({"text": "knee", "feedback": []}, "feedback: a search by text has no feedback"),
        ({"text": "knee", "rerank": "none"}, "rerank: a search by text has no rerank"),
        ({"text": "knee", "profile": "lite0-max"}, "profile: a search by text has no profile"),
        ({"image_id": "a", "profile": "lite0-max"}, "profile: a search by id has no profile"),
        ({"image_id": "a", "vector": None}, "vector: a search by id has no vector"),
        ({"image_id": "a", "anywhere": False}, "anywhere: a search by id has no anywhere"),
        ({"image_id": "a", "anywhere": "false"}, "anywhere: a search by id has no anywhere"),
        (
            {"image_id": "a", "region": [0, 0, 9, 9], "anywhere": "0"},
            "anywhere: a search by id has no anywhere",
        ),
        (
            {"image_id": "a", "nonsense": 1},
            "nonsense: a search by id has no nonsense; it has: image_id, region",
        ),
        ({"anywhere": True, "image_id": "a"}, "region: a search for a region needs it"),
        ({"anywhere": True, "region": [0, 0, 9, 9]}, "image_id: a search for a region needs it"),
        (
            {"anywhere": True, "image_id": "a", "region": [0, 0, 9, 9], "examples": ["b"]},
            "examples: a search for a region has no examples",
        ),
    ],
)
def test_a_field_of_another_kind_is_named(
    client: FlaskClient, address: str, body: dict[str, Any], detail: str
) -> None:
    assert problem(client.post(address, json=body), 422).startswith(detail)
    queries = {"queries": [{"image_id": "0" * 32}, body]}
    assert problem(client.post(f"{address}/batch", json=queries), 422).startswith(f"queries.1.{detail}")


def test_a_field_in_the_address_belongs_to_the_kind_too(
    client: FlaskClient, address: str, values: list[float]
) -> None:
    assert client.post(f"{address}?k=2", json={"vector": values}).status_code == 200
    refused = client.post(f"{address}?region=0,0,9,9", json={"vector": values})
    assert problem(refused, 422).startswith("region: a search by vector has no region")


def test_both_addresses_find_the_same(
    client: FlaskClient, address: str, ids: list[str], values: list[float]
) -> None:
    bodies: list[dict[str, Any]] = [
        {"image_id": ids[0], "k": 3},
        {"examples": ids[:2], "k": 3, "rerank": "none"},
        {"image_id": ids[0], "region": [0, 0, 32, 32], "k": 3},
        {"vector": values, "k": 3},
        {"vector": values, "examples": ids[1:2], "k": 3},
    ]
    older = [client.post("/v1/search", json=body).json["results"] for body in bodies]
    found = [client.post(address, json=body).json["results"] for body in bodies]
    items = client.post(f"{address}/batch", json={"queries": bodies}).json["items"]
    ranked = [[hit["image_id"] for hit in results] for results in older]
    assert all(ranked)
    assert [[hit["image_id"] for hit in results] for results in found] == ranked
    assert [[hit["image_id"] for hit in item["answer"]["results"]] for item in items] == ranked


def test_older_addresses_take_what_they_took(
    client: FlaskClient, ids: list[str], values: list[float]
) -> None:
    for body in (
        {"image_id": ids[0], "vector": values},
        {"image_id": ids[0], "text": None, "anywhere": False, "vector": None},
        {"image_id": ids[0], "profile": None},
    ):
        assert client.post("/v1/search", json=body).status_code == 200, body
        answer = client.post("/v1/search/batch", json={"queries": [body]}).json
        assert answer["items"][0]["answer"], body


def test_the_description_has_a_schema_for_each_kind(client: FlaskClient) -> None:
    schemas = client.get("/openapi.json").json["components"]["schemas"]
    names = [each["$ref"].rpartition("/")[2] for each in schemas["SearchBody"]["oneOf"]]
    assert names == ["SearchById", "SearchByVector", "SearchByText", "SearchForRegion"]
    for kind in KINDS:
        schema = schemas[kind.schema]
        assert tuple(schema["properties"]) == kind.fields
        assert tuple(schema["required"]) == kind.required
        assert schema["additionalProperties"] is False
        for name in kind.required:
            assert {"type": "null"} not in schema["properties"][name].get("anyOf", ()), name
    assert schemas["DeprecatedSearchBody"]["properties"].keys() >= {*FOR_REGION.fields, "vector", "text"}
