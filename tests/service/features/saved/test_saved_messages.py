"""Order of the fields of saved cases and cohorts, in which clients and files show them."""

import json
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from pydantic import BaseModel

from service.features.saved.messages import (
    CaseHit,
    CaseSummary,
    CohortSummary,
    JudgedCohortImage,
    NextImage,
    SavedCohort,
)
from tests.service.conftest import problem

OPENAPI = Path(__file__).parents[4] / "docs" / "openapi.json"
OF_THE_IMAGE = "labels labels_left_out links"
COHORT = "id title note shared collection where owner mine created changed judged found"


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (CaseHit, f"rank image_id score distance {OF_THE_IMAGE}"),
        (CaseSummary, "id title note shared collection owner mine created changed picture"),
        (CohortSummary, COHORT),
        (SavedCohort, f"{COHORT} images"),
        (JudgedCohortImage, f"image_id relevant {OF_THE_IMAGE} card"),
        (NextImage, f"image_id probability drawn {OF_THE_IMAGE} card"),
    ],
)
def test_what_names_an_item_comes_before_its_details(message: type[BaseModel], fields: str) -> None:
    assert list(message.model_fields) == fields.split()
    schema = json.loads(OPENAPI.read_text())["components"]["schemas"][message.__name__]
    assert list(schema["properties"]) == fields.split()


def test_the_list_of_cohorts_has_parameters_of_its_own() -> None:
    assert "CohortListParameters" in json.loads(OPENAPI.read_text())["components"]["schemas"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/cohorts?collection="),
        ("PATCH", "/v1/cohorts/none"),
        ("POST", "/v1/cohorts/none/judgements"),
        ("PATCH", "/v1/cases/none"),
        ("POST", "/v1/audit"),
    ],
)
def test_the_kind_of_a_body_is_checked_first(client: FlaskClient, method: str, path: str) -> None:
    assert "application/json" in problem(client.open(path, method=method, data="x"), 415)
