"""The page /docs as the service sends it, before its scripts run."""

import re
from io import BytesIO

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydicom import dcmread

from cbir import settings
from cbir.search import example_values as example
from service.access.tokens import Scope
from service.app import create_app
from service.http.schema_text import describe_schema, mark_up
from service.pages.docs_lines import CHANGING, FILLED_BY_READER, NEEDS, feature_lines
from tests.service import wards
from tests.service.wards import Ward


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return wards.make(tmp_path_factory)


def operation_blocks(page: str) -> dict[str, str]:
    """The part of the page of each operation, by its name."""
    parts = re.split(r'<details class="operation" id="(\w+)">', page)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_operation_has_lines_and_a_form(client: FlaskClient) -> None:
    page, document = client.get("/docs").text, client.get("/openapi.json").json
    blocks = operation_blocks(page)
    entries = {
        item["operationId"]: item for methods in document["paths"].values() for item in methods.values()
    }
    assert blocks.keys() == entries.keys()
    for name, block in blocks.items():
        assert 'data-line="curl"' in block, name
        assert "<form" in block, name
        for parameter in entries[name].get("parameters", []):
            assert f'name="{parameter["name"]}" ' in block, (name, parameter["name"])
        form = (
            entries[name].get("requestBody", {}).get("content", {}).get("multipart/form-data", {"schema": {}})
        )
        for field in form["schema"].get("properties", {}).keys() - {"image"}:
            assert f'name="{field}" ' in block, (name, field)
        assert ('data-confirm="' in block) == ("x-confirm" in entries[name]), name
        assert ('type="file"' in block) == any("json" not in media for media in media_types(entries[name])), (
            name
        )


def media_types(entry: dict[str, dict[str, dict[str, object]]]) -> list[str]:
    return list(entry.get("requestBody", {}).get("content", {}))


def test_names_a_real_image(client: FlaskClient, ids: list[str]) -> None:
    page = client.get("/docs").text
    assert f'"{example.IMAGE_ID}": "{ids[0]}"' in page
    assert example.STUDY_UID not in page.partition("data-values='")[2].partition("'")[0]


def test_names_nothing_real_to_callers_without_search(ward: Ward) -> None:
    page = ward.client(Scope.ingest).get("/docs").text
    assert not any(record.image_id in page for record in ward.visible + ward.hidden)
    assert "data-values='{}'" in page


def test_names_only_what_the_caller_may_see(ward: Ward) -> None:
    page = ward.limited().get("/docs").text
    assert not any(record.image_id in page for record in ward.hidden)
    assert any(record.image_id in page for record in ward.visible)
    assert any(record.study in page for record in ward.visible if record.study)


def test_says_which_scope_is_missing(ward: Ward) -> None:
    blocks = operation_blocks(ward.limited().get("/docs").text)
    lacking = {name for name, block in blocks.items() if "data-lacking" in block}
    assert {"delete", "erase_patient", "add", "index", "history", "metrics"} <= lacking
    assert not lacking & {"search", "image", "set_labels", "original", "openapi", "health"}
    for name, block in blocks.items():
        assert ('<details class="try" hidden>' in block) == (name in lacking), name


def test_asks_for_tokens_only_where_they_are_needed(ward: Ward, client: FlaskClient) -> None:
    page = ward.limited().get("/docs").text
    assert 'id="token" type="password"' in page
    blocks = operation_blocks(page)
    assert 'data-token="true"' in blocks["search"]
    assert 'data-token="false"' in blocks["health"]
    assert 'id="token"' not in client.get("/docs").text
    assert 'data-token="true"' not in client.get("/docs").text


def test_no_values_without_a_collection() -> None:
    app: Flask = create_app("no-such-collection", settings.load())
    answer = app.test_client().get("/docs")
    assert answer.status_code == 200
    assert "data-values='{}'" in answer.text


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer, 1 to 9"),
        ({"type": "string", "maxLength": 3}, "string, at most 3 characters"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Hit"}}, "list of Hit"),
        ({"type": "array", "prefixItems": [{}, {}], "minItems": 2, "maxItems": 2}, "2 numbers"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "number by name"),
        ({"enum": ["max", "sum"], "type": "string"}, "one of max, sum"),
        ({"type": "string", "contentMediaType": "application/octet-stream"}, "file"),
        ({}, "any value"),
    ],
)
def test_schemas_in_words(schema: dict[str, object], text: str) -> None:
    assert describe_schema(schema) == text


def test_descriptions_as_html() -> None:
    assert mark_up("a <b> `c`\nd\n\ne") == "<p>a &lt;b&gt; <code>c</code> d</p><p>e</p>"


def test_the_slice_of_the_lines_is_of_the_study_that_they_name(client: FlaskClient) -> None:
    answer = client.get("/docs/slice.dcm")
    assert answer.mimetype == "application/dicom"
    assert dcmread(BytesIO(answer.data)).StudyInstanceUID == example.SLICE_STUDY_UID


def test_operations_whose_lines_need_something_exist(client: FlaskClient) -> None:
    names = operation_blocks(client.get("/docs").text).keys()
    of_features = [name for lines in feature_lines() for name in (*lines.changing, *lines.showing)]
    assert "delete_case" in of_features
    assert {*NEEDS, *CHANGING, *of_features, *FILLED_BY_READER} <= names
    assert len({*CHANGING, *of_features}) == len(CHANGING) + len(of_features)


def test_says_what_a_line_needs(client: FlaskClient) -> None:
    for name, block in operation_blocks(client.get("/docs").text).items():
        assert ('<div class="note">' in block) == (name in NEEDS), name


def test_groups_are_ordered_for_readers(client: FlaskClient) -> None:
    groups = re.findall(r'<h2 id="tag-(\w+)">', client.get("/docs").text)
    assert groups[0] == "search"
    assert groups[-2:] == ["dicomweb", "service"]
