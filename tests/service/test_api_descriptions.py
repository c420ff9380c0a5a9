"""Every parameter and field of the API has a description and an example that its own schema accepts."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from flask import Flask

from cbir import settings
from service.app import create_app
from service.routes import openapi

DESCRIPTION_CHARACTERS = 10  # of the shortest description that says anything


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The OpenAPI document; the collection is not opened."""
    return openapi.build_openapi(create_app("collection", settings.load()))


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def fields_of(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field in `schema`, those of nested objects too, with its path."""
    if isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            yield f"{path}.{name}", field
        for key, value in schema.items():
            yield from fields_of(value, path if key in ("anyOf", "items") else f"{path}/{key}")
    elif isinstance(schema, list):
        for item in schema:
            yield from fields_of(item, path)


def parameters_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in operations(document):
        for parameter in item.get("parameters", []):
            yield f"{item['operationId']} {parameter['in']} {parameter['name']}", parameter


def bodies_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every body of a request, response or problem, with its name."""
    for item in operations(document):
        for media, body in item.get("requestBody", {}).get("content", {}).items():
            yield f"{item['operationId']} request {media}", body
        for status, response in item["responses"].items():
            for media, body in response.get("content", {}).items():
                yield f"{item['operationId']} {status} {media}", body
    for status, response in document["components"]["responses"].items():
        for media, body in response["content"].items():
            yield f"{status} {media}", body


def objections(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    """What a JSON Schema validator says against `value`."""
    rooted = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    if "$ref" in json.dumps(schema):  # a validator reads all that it is given
        rooted["components"] = document["components"]
    return [error.message for error in jsonschema_rs.validator_for(rooted).iter_errors(value)]


def is_described(about: dict[str, Any]) -> bool:
    return len(about.get("description", "")) >= DESCRIPTION_CHARACTERS


def all_fields(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    schemas = document["components"]["schemas"].items()
    named = [field for name, schema in schemas for field in fields_of(schema, name)]
    return named + [
        field for name, body in bodies_of(document) for field in fields_of(body.get("schema"), name)
    ]


def test_every_parameter_is_described_with_an_example(document: dict[str, Any]) -> None:
    parameters = dict(parameters_of(document))
    assert len(parameters) > 100
    assert [name for name, item in parameters.items() if not is_described(item)] == []
    assert [name for name, item in parameters.items() if "example" not in item] == []
    wrong = {name: objections(document, item["schema"], item["example"]) for name, item in parameters.items()}
    assert {name: said for name, said in wrong.items() if said} == {}


def test_every_field_is_described_with_an_example(document: dict[str, Any]) -> None:
    fields = all_fields(document)
    assert len(fields) > 230
    assert [name for name, field in fields if not is_described(field)] == []
    assert [name for name, field in fields if not field.get("examples")] == []
    wrong = {
        name: [said for example in field["examples"] for said in objections(document, field, example)]
        for name, field in fields
    }
    assert {name: said for name, said in wrong.items() if said} == {}


def test_every_operation_says_what_it_does_and_returns(document: dict[str, Any]) -> None:
    for item in operations(document):
        name = item["operationId"]
        assert is_described({"description": item["summary"]}), name
        assert is_described(item), name
        statuses = set(item["responses"])
        assert any(status >= "400" for status in statuses), name
        for status in statuses:
            response = item["responses"][status]
            if "$ref" in response:
                response = document["components"]["responses"][status]
            assert is_described(response) or status in ("200", "202"), (name, status)
        assert statuses & {"200", "201", "202", "204"}, name


def test_every_body_has_a_whole_example(document: dict[str, Any]) -> None:
    bodies = [(name, body) for name, body in bodies_of(document) if "json" in name or "request" not in name]
    assert len(bodies) > 60
    for name, body in bodies:
        assert body.get("example") is not None, name
        assert objections(document, body.get("schema", {}), body["example"]) == [], name
        reference = body.get("schema", {}).get("$ref")
        if reference and "request" not in name:
            required = document_model(document, reference).get("required", [])
            assert set(required) <= set(body["example"]), name


def document_model(document: dict[str, Any], reference: str) -> dict[str, Any]:
    model: dict[str, Any] = document["components"]["schemas"][reference.rpartition("/")[2]]
    return model


def test_a_wrong_example_is_found(document: dict[str, Any]) -> None:
    hit = document["components"]["schemas"]["Hit"]["properties"]["rank"]
    assert objections(document, hit, "first")
    assert objections(document, {"$ref": "#/components/schemas/Judgement"}, {"image_id": "a", "relevance": 2})


def test_operations_that_change_a_collection_are_confirmed(document: dict[str, Any]) -> None:
    reading = {
        "search",
        "search_batch",
        "grade",
        "explain",
        "render",
        "vectors",
        "export_images",
        "map_places",
        "image_records",
        "federation_search",
    }  # POST for their bodies
    for path, methods in document["paths"].items():
        for method, item in methods.items():
            name = item["operationId"].removeprefix("deprecated_")
            changes = method != "get" and name not in reading
            assert ("x-confirm" in item) == changes, path


def test_the_document_is_that_of_the_app(app: Flask, document: dict[str, Any]) -> None:
    assert openapi.build_openapi(app) == document
