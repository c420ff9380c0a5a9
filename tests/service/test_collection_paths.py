"""Addresses of a collection, and the older ones with its name as a parameter."""

import json
import re
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.errors import InvalidInput
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.client import Client, ServiceError
from service.client.collection_messages import path_in_collection
from tests.service.conftest import problem

DOCS = Path(__file__).parents[2] / "docs"
PATHS: dict[str, dict[str, Any]] = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))["paths"]
START = "/v1/collections/{collection}"
ELSEWHERE = {"/v1/cases", "/v1/cohorts", "/v1/federation/profile", "/v1/federation/search"}


def names_collection(operation: dict[str, Any]) -> bool:
    return any(parameter["name"] == "collection" for parameter in operation.get("parameters", []))


@pytest.fixture(scope="module")
def two(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """A service over two collections, of which the second has one image less."""
    folder = tmp_path_factory.mktemp("two")
    second = copytree(indexed, folder / "hips and knees")
    app = create_app([indexed, second], settings.load(job_workers=0, state_folder=folder / "state"))
    client = app.test_client()
    image = client.get("/v1/images", query_string={"collection": second.name}).json["items"][0]["image_id"]
    assert client.delete(f"/v1/collections/hips%20and%20knees/images/{image}").status_code == 204
    return app


@pytest.fixture
def both(two: Flask) -> FlaskClient:
    return two.test_client()


@pytest.mark.parametrize(
    ("path", "later"),
    [
        ("/v1/collection", "/v1/collections/a%20b%2Fc"),
        ("/v1/collection/history", "/v1/collections/a%20b%2Fc/history"),
        ("/v1/images/1/vector", "/v1/collections/a%20b%2Fc/images/1/vector"),
        ("/dicomweb/studies", "/v1/collections/a%20b%2Fc/dicomweb/studies"),
    ],
)
def test_paths(path: str, later: str) -> None:
    assert path_in_collection(path, "a b/c") == later


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_an_address_cannot_hold(name: str) -> None:
    with pytest.raises(InvalidInput, match="there is no collection"):
        path_in_collection("/v1/search", name)


@pytest.mark.parametrize("scope", [Scope.ingest, Scope.annotate])
def test_a_client_without_a_name_needs_no_scope_to_search(two: Flask, tmp_path: Path, scope: Scope) -> None:
    tokens = TokenStore(tmp_path / "state")
    folders = [handle.path for handle in two.extensions["cbir"].collections.values()]
    app = create_app(
        folders, settings.load(require_tokens=True, state_folder=tmp_path / "state", job_workers=0)
    )
    text = tokens.create((scope,), collections=["hips and knees"])[1]
    for name in (None, ""):
        with Client("http://localhost", text, name, transport=httpx.WSGITransport(app)) as client:
            with pytest.raises(ServiceError, match="scope admin"):
                client.delete("0" * 32)
            assert client.collection_name == "hips and knees"


def test_what_takes_a_collection_has_an_address_below_it() -> None:
    older = {
        path
        for path, operations in PATHS.items()
        if not path.startswith(START) and any(map(names_collection, operations.values()))
    }
    later = {path for path in PATHS if path.startswith(START)}
    assert {
        path_in_collection(path).replace("<collection>", "{collection}") for path in older - ELSEWHERE
    } == later
    for path in later:
        for operation in PATHS[path].values():
            places = [each["in"] for each in operation["parameters"] if each["name"] == "collection"]
            assert places == ["path"], path
            assert "deprecated" not in operation
            assert '"collection": {' not in json.dumps(operation.get("requestBody", {})), path
    for path in older - ELSEWHERE:
        for operation in PATHS[path].values():
            assert operation.get("deprecated", False) == (not path.startswith("/dicomweb")), path


def test_both_addresses_answer_alike(two: Flask, both: FlaskClient) -> None:
    counts = []
    for name in two.extensions["cbir"].collections:
        facts = both.get(path_in_collection("/v1/collection", name)).json
        counts.append(facts["images"])
        assert facts == both.get("/v1/collection", query_string={"collection": name}).json
        pages = [
            both.get(path_in_collection("/v1/images", name), query_string={"limit": 3}).json,
            both.get("/v1/images", query_string={"limit": 3, "collection": name}).json,
        ]
        assert pages[0] == pages[1]
        image = pages[0]["items"][0]
        assert both.get(image["links"]["thumbnail"]).status_code == 200
        body = {"image_id": image["image_id"], "k": 4}
        found = both.post(path_in_collection("/v1/search", name), json=body).json
        assert found["results"] == both.post("/v1/search", json=body | {"collection": name}).json["results"]
    assert counts[1] == counts[0] - 1


def test_the_name_is_given_once(both: FlaskClient) -> None:
    address = path_in_collection("/v1/images", "hips and knees")
    assert "names it already" in problem(
        both.get(address, query_string={"collection": "hips and knees"}), 422
    )
    body = {"image_id": "0" * 32, "collection": "hips and knees"}
    assert "names it already" in problem(
        both.post(path_in_collection("/v1/search", "hips and knees"), json=body), 422
    )
    batch = {"queries": [{"image_id": "0" * 32, "collection": "hips and knees"}]}
    answer = both.post(path_in_collection("/v1/search/batch", "hips and knees"), json=batch)
    assert "names the collection already" in problem(answer, 422)


def test_other_collections_are_not_found(both: FlaskClient) -> None:
    for path in ("/v1/collection", "/v1/images", "/v1/labels", "/dicomweb/studies/1.2/similar"):
        assert problem(both.get(path_in_collection(path, "feet")), 404)
    assert both.get("/v1/collections//images").status_code == 404


def test_a_token_of_one_collection_reaches_no_other(two: Flask, tmp_path: Path) -> None:
    folders = [handle.path for handle in two.extensions["cbir"].collections.values()]
    tokens = TokenStore(tmp_path / "state")
    app = create_app(
        folders, settings.load(require_tokens=True, state_folder=tokens.file.parent, job_workers=0)
    )
    limited = tokens.create((Scope.search,), collections=["hips and knees"])[1]
    client, headers = app.test_client(), {"Authorization": f"Bearer {limited}"}
    assert client.get(path_in_collection("/v1/images", "hips and knees"), headers=headers).status_code == 200
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/v1/collections/<"):
            path = re.sub(r"<[^>]*>", "x", rule.rule.replace("<collection>", folders[0].name))
            for method in (rule.methods or set()) & {"GET", "POST", "PUT", "PATCH", "DELETE"}:
                answer = client.open(
                    path, method=method, headers=headers, json={} if method != "GET" else None
                )
                assert answer.status_code in (400, 403, 404, 415, 422), (method, path)
                assert client.open(path, method=method).status_code == 401
