"""Addresses that do not exist: a page for browsers, a problem for other clients."""

import pytest
from flask.testing import FlaskClient

from tests.service.conftest import problem

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def test_a_browser_sees_a_page(client: FlaskClient) -> None:
    answer = client.get("/nowhere", headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert answer.mimetype == "text/html"
    assert "No page at this address" in answer.text
    assert "Accept" in answer.headers["Vary"]


@pytest.mark.parametrize("accept", [{}, {"Accept": "*/*"}, {"Accept": "application/json"}])
def test_other_clients_get_a_problem(client: FlaskClient, accept: dict[str, str]) -> None:
    problem(client.get("/nowhere", headers=accept), 404)


def test_an_image_that_is_missing_is_a_problem_for_all(client: FlaskClient) -> None:
    problem(client.get(f"/v1/images/{'0' * 32}", headers={"Accept": BROWSER}), 404)
