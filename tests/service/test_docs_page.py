"""The page /docs as the service sends it, before its scripts run."""

import hashlib
import re
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from service.access.token_stores import Scope
from service.app import create_app
from service.routes.openapi import mark_up
from tests.service import wards
from tests.service.wards import Ward

BUNDLE = Path("service/static/swagger-ui")
THIRD_PARTY = Path("THIRD_PARTY.md")


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return wards.make(tmp_path_factory)


def test_names_nothing_of_the_collection(ward: Ward, client: FlaskClient) -> None:
    for page in (ward.client(Scope.ingest).get("/docs").text, ward.limited().get("/docs").text):
        assert not any(record.image_id in page for record in ward.visible + ward.hidden)


def test_needs_no_collection() -> None:
    app: Flask = create_app("no-such-collection", settings.load())
    assert app.test_client().get("/docs").status_code == 200


def test_descriptions_as_html() -> None:
    assert mark_up("a <b> `c`\nd\n\ne") == "<p>a &lt;b&gt; <code>c</code> d</p><p>e</p>"


@pytest.mark.parametrize("name", ["swagger-ui-bundle.js", "swagger-ui.css"])
def test_the_bundle_is_the_one_that_third_party_names(name: str) -> None:
    """Whoever changes a file by hand, or brings another version, must say so there."""
    row = re.search(rf"`{re.escape(name)}` \| `([0-9a-f]{{64}})`", THIRD_PARTY.read_text())
    assert row
    assert hashlib.sha256((BUNDLE / name).read_bytes()).hexdigest() == row[1]


def test_the_bundle_has_its_licences() -> None:
    assert "Apache License" in (BUNDLE / "LICENSE").read_text()
    assert "SmartBear" in (BUNDLE / "NOTICE").read_text()
    assert "MIT" in (BUNDLE / "swagger-ui-bundle.js.LICENSE.txt").read_text()
