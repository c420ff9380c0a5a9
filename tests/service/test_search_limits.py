"""Searches with too much of anything are refused in words, before they begin."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.service.conftest import problem

JSON_LIMITS = {
    "k of 1001": ({"k": 1001}, "k: at most 1000"),
    "33 conditions": ({"where": ["a=b"] * 33}, "at most 32 items"),
    "a long condition": ({"where": ["label=" + "x" * 1000]}, "1000 are allowed"),
    "21 examples": ({"examples": ["x"] * 21}, "at most 20 items"),
    "a long example": ({"examples": ["x" * 101]}, "at most 100 characters"),
    "a long image id": ({"image_id": "x" * 101}, "image_id: string should have at most 100"),
    "301 judgements": ({"feedback": [{"image_id": "x", "relevance": 1}] * 301}, "at most 300 items"),
    "a long judged image": (
        {"feedback": [{"image_id": "x" * 101, "relevance": 1}]},
        "at most 100 characters",
    ),
    "a long re-ranker": ({"rerank": "x" * 256}, "rerank: string should have at most 255"),
    "a long collection": ({"collection": "x" * 256}, "collection: string should have at most 255"),
}


@pytest.mark.parametrize("name", JSON_LIMITS)
def test_limits_of_a_search(client: FlaskClient, ids: list[str], name: str) -> None:
    values, expected = JSON_LIMITS[name]
    body: dict[str, Any] = {"image_id": ids[0]} | values
    detail = problem(client.post("/v1/search", json=body), 422)
    assert expected in detail
    assert len(detail) < 300


def test_deeply_nested_json(client: FlaskClient) -> None:
    nested = '{"image_id": ' + "[" * 100_000 + "]" * 100_000 + "}"
    detail = problem(client.post("/v1/search", data=nested, content_type="application/json"), 422)
    assert "nested too deeply" in detail


def test_nested_feedback(client: FlaskClient) -> None:
    nested: Any = "x"
    for _ in range(500):
        nested = [nested]
    assert "feedback" in problem(client.post("/v1/search", json={"feedback": nested}), 422)


@pytest.mark.features
@pytest.mark.parametrize("name", ["limit", "offset", "depth"])
def test_limits_of_a_search_for_similar_studies(client: FlaskClient, name: str) -> None:
    query = {"study": "1.2", name: 10**9 + 1}
    assert f"{name}: input should be less than" in problem(client.get("/v1/similar", query_string=query), 422)
    query = {"study": "1.2", name: 10**9}
    problem(client.get("/v1/similar", query_string=query), 404)


@pytest.mark.features
def test_limit_of_fields(client: FlaskClient) -> None:
    fields = ",".join(f"{number:08X}" for number in range(101))
    answer = client.get("/dicomweb/studies/1.2/similar", query_string={"includefield": fields})
    assert "at most 100 attributes" in problem(answer, 400)


def test_limit_of_idempotency_keys(client: FlaskClient) -> None:
    for key in ("", "x" * 256):
        refused = client.post(
            "/v1/images", data=b"x", content_type="image/png", headers={"Idempotency-Key": key}
        )
        assert "1 to 255 printable characters" in problem(refused, 400)


def test_limit_of_a_json_body(client: FlaskClient) -> None:
    body = json.dumps({"image_id": "x" * 2**20})
    problem(client.post("/v1/search", data=body, content_type="application/json"), 413)
