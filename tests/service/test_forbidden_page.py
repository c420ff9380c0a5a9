"""Pages that a caller may not see, and pages that have moved."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import settings
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.pages.error_pages import MOVED, new_address
from tests.service.conftest import problem

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def searching(indexed: Path, tmp_path: Path) -> FlaskClient:
    """A client with the scope search alone."""
    state = tmp_path / "state"
    tokens = TokenStore(state)
    client = create_app(indexed, settings.load(require_tokens=True, state_folder=state)).test_client()
    _, text = tokens.create([Scope.search])
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    return client


def test_a_browser_sees_a_page_that_names_the_scope(searching: FlaskClient) -> None:
    answer = searching.get("/admin", headers={"Accept": BROWSER})
    assert (answer.status_code, answer.mimetype) == (403, "text/html")
    assert "The service refused the request" in answer.text
    assert "admin" in answer.text
    assert "Accept" in answer.headers["Vary"]


def test_other_clients_and_the_api_answer_with_problems(searching: FlaskClient) -> None:
    problem(searching.get("/admin"), 403)
    problem(searching.get("/admin", headers={"Accept": "application/json"}), 403)
    problem(searching.get("/v1/jobs", headers={"Accept": BROWSER}), 403)
    problem(searching.delete(f"/v1/images/{'0' * 32}", headers={"Accept": BROWSER}), 403)


@pytest.mark.features
def test_old_addresses_lead_to_pages_that_there_are(indexed: Path) -> None:
    client = create_app(indexed, settings.load()).test_client()
    for old, new in {
        "/cases": "/saved",
        "/cases/abc?collection=knee%20x": "/saved/cases/abc?collection=knee%20x",
        "/cohorts?lang=de": "/saved?lang=de#cohorts",
        "/cohorts/abc": "/saved/cohorts/abc",
        "/audit?collection=x": "/quality?collection=x",
        "/quarantine": "/quality#quarantine",
    }.items():
        assert client.get(old).headers["Location"] == new
    assert client.get("/cases/abc/def").status_code == 404  # no page there
    assert client.get("/casesx").status_code == 404


@pytest.mark.features
@pytest.mark.parametrize("old", MOVED)
def test_every_old_address_has_a_page_or_a_successor(client: FlaskClient, old: str) -> None:
    assert client.get(old).status_code in (200, 302)
    assert new_address(old).startswith("/")
    assert new_address("/") == ""
