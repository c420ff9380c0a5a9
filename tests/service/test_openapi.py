"""The description of the API: committed, true, and readable without anything from elsewhere."""

import inspect
import json
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from flask import Flask
from flask.testing import FlaskClient

from service import write_docs
from service.access import scopes
from service.client import Client
from service.http import operations
from service.http.problems import KINDS, problem_type
from service.routes import openapi, openapi_schemas

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["openapi.json", "annotation-openapi.json", "errors.md"])
def test_committed_is_what_is_generated(name: str) -> None:
    committed = (DOCS / name).read_text(encoding="utf-8")
    assert committed == write_docs.generated_docs()[name], "run python -m service.write_docs docs"


def test_served_is_what_is_committed(client: FlaskClient) -> None:
    assert client.get("/openapi.json").json == json.loads((DOCS / "openapi.json").read_text())


def test_every_address_of_the_api_is_described(app: Flask, client: FlaskClient) -> None:
    described = client.get("/openapi.json").json["paths"]
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/v1/"):
            path = openapi_schemas.path_of(rule)
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                assert method.lower() in described[path], rule
                assert scopes.rule_of_address(app, method, rule.rule), f"{method} {rule} has no scope"


def test_every_reference_leads_somewhere(client: FlaskClient) -> None:
    document = client.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    references = set(re.findall(r'"\$ref":\s*"#/([^"]+)"', client.get("/openapi.json").text))
    assert references
    for reference in references:
        results = document
        for part in reference.split("/"):
            results = results[part]


def names_of_operations(app: Flask) -> list[str]:
    """Names of the operations that the document of the service describes."""
    separate = app.extensions[openapi.SEPARATE_DOCUMENT]
    endpoints = {rule.endpoint for rule in app.url_map.iter_rules() if not rule.rule.startswith(separate)}
    views = (app.view_functions[endpoint] for endpoint in endpoints)
    return [item.name for item in map(operations.operation_of, views) if item]


def test_operations_have_names_of_their_own(app: Flask) -> None:
    results = names_of_operations(app)
    assert len(results) == len(set(results)) > 50


def test_the_client_has_a_method_for_every_operation(app: Flask) -> None:
    methods = {name for name, _ in inspect.getmembers(Client, inspect.isfunction)}
    assert set(names_of_operations(app)) <= methods


# What the client's methods take under other names, or as part of another: the operation, and its fields.
OTHERWISE = {
    "search_batch": {"image"},  # files are `queries`
    "search": {"image_id", "image"},  # `query`
    "render": {"image", "pixels", "side"},  # `query`; `Client.pixels`
    "picture": {"pixels", "side"},  # `Client.pixels`
    "cases": {"cursor"},  # an iterator
    "cohorts": {"cursor"},  # an iterator
    "judge_cohort": {"judgements"},  # `judged`
    "save_case": {
        "image",
        "case",
        "search",
        "rounds",
        "marks",
        "method",
        "outlier",
        "answers",
    },  # `query`, `answer`, `judged`
    "grade": {"image_id", "image"},  # `query`
    "explain": {"image_id", "image", "answers"},  # `query`, `image_ids`
    "add": {"image"},  # `images`
    "images": {"cursor"},  # `image_page`, which `images` goes through
    "history": {"cursor"},
    "label_values": {"cursor"},  # `offset`
}
EVERYWHERE = {"collection"}  # of the client itself


def test_the_client_takes_every_field(client: FlaskClient) -> None:
    document = client.get("/openapi.json").json
    looked_at = 0
    for methods in document["paths"].values():
        for item in methods.values():
            name = item["operationId"].removeprefix("deprecated_").removesuffix("_of_default")
            fields = {values["name"] for values in item.get("parameters", [])}
            for body in item.get("requestBody", {}).get("content", {}).values():
                schema = body["schema"]
                if "$ref" in schema:
                    schema = document["components"]["schemas"][schema["$ref"].split("/")[-1]]
                fields |= set(schema.get("properties", {}))
            used = {field.lower().replace("-", "_") for field in fields} - {"if_none_match"}
            used -= OTHERWISE.get(name, set()) | EVERYWHERE
            signature = inspect.signature(getattr(Client, name)).parameters
            values = set(signature) - {"self"}
            for one_of in signature.values():
                if one_of.kind is one_of.VAR_KEYWORD:  # Unpack of a TypedDict
                    values |= set(get_type_hints(*get_args(one_of.annotation)))
            path_names = {"job": "name", "key": "key"}
            missing = {path_names.get(field, field) for field in used} - values
            assert not missing, f"Client.{name} does not take {missing}"
            looked_at += len(used)
    assert looked_at > 30


@pytest.mark.parametrize("path", ["/docs", "/docs/errors"])
def test_pages_need_nothing_from_elsewhere(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]* src=)|<style|style=| on\w+=", answer.text)  # nothing inline
    for target in re.findall(r'(?:src|href)="([^"]*)"', answer.text):
        assert target.startswith(("/", "#")), target
        if target.startswith("/"):
            assert client.get(target).status_code == 200, target


def test_every_type_of_problem_is_explained(client: FlaskClient) -> None:
    page, text = client.get("/docs/errors").text, (DOCS / "errors.md").read_text()
    for name in KINDS:
        assert f'id="{name}"' in page
        assert problem_type(name) in text
    unknown = client.get("/v1/nothing").json["type"]
    assert unknown == "/docs/errors#not-found"


def test_requests_have_no_defaults_and_name_no_field_as_required_twice(client: FlaskClient) -> None:
    """Generated clients send both, and a parameter must not be in the address and in the body."""
    document = client.get("/openapi.json").json
    for methods in document["paths"].values():
        for item in methods.values():
            content = item.get("requestBody", {}).get("content", {})
            for body in content.values():
                schema = body["schema"]
                if "$ref" in schema:
                    schema = document["components"]["schemas"][schema["$ref"].split("/")[-1]]
                assert not [
                    name for name, field in schema.get("properties", {}).items() if "default" in field
                ]
            for parameter in item.get("parameters", []) if content else ():
                assert "default" not in parameter["schema"], (item["operationId"], parameter["name"])
                assert not (parameter.get("required") and parameter["in"] == "query"), item["operationId"]


def test_files_are_known_to_generators(client: FlaskClient) -> None:
    for methods in client.get("/openapi.json").json["paths"].values():
        for item in methods.values():
            for media, body in item.get("requestBody", {}).get("content", {}).items():
                if "json" not in media and media != "multipart/form-data":
                    assert body["schema"]["format"] == "binary", (item["operationId"], media)
                if media == "multipart/form-data":
                    image = body["schema"]["properties"]["image"]
                    assert image.get("items", image)["format"] == "binary", item["operationId"]
                    assert '"null"' not in json.dumps(body["schema"]), "a form has none"
