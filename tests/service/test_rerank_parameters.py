"""Parameters of re-rankers over HTTP: every way to send them, every refusal, and the list of them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.datastructures import MultiDict

from cbir import rerank
from cbir.rerank.feedback import Feedback
from service.client import Client
from tests.service.conftest import problem, serving

SEARCH = "/v1/search"
SENT = {"P": 3, "C": 0.5, "gamma": "auto"}


def used(response: Any) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    parameters: dict[str, Any] = response.json["rerank"]["parameters"]
    return parameters


def test_every_form_reaches_the_re_ranker(client: FlaskClient, ids: list[str], pictures: list[Path]) -> None:
    image = pictures[-1].read_bytes()
    assignments = [f"{name}={value}" for name, value in SENT.items()]
    query = MultiDict([("rerank", "eprf"), *(("parameters", text) for text in assignments)])
    form = {"image": (io.BytesIO(image), "x"), "rerank": "eprf", "parameters": assignments}
    responses = [
        client.post(SEARCH, json={"image_id": ids[0], "rerank": "eprf", "parameters": SENT}),
        client.post(SEARCH, json={"image_id": ids[0], "rerank": "eprf", "parameters": assignments}),
        client.post(SEARCH, data=image, content_type="image/png", query_string=query),
        client.post(SEARCH, data=form),
    ]
    for response in responses:
        assert used(response) == rerank.get("eprf", **SENT).parameters
    assert responses[2].json["results"] == responses[3].json["results"]


def test_parameters_change_the_order(client: FlaskClient, ids: list[str]) -> None:
    scores = [
        [hit["score"] for hit in client.post(SEARCH, json=body).json["results"]]
        for body in (
            {"image_id": ids[0], "rerank": "eprf"},
            {"image_id": ids[0], "rerank": "eprf", "parameters": {}},
            {"image_id": ids[0], "rerank": "eprf", "parameters": {"P": 2}},
        )
    ]
    assert scores[0] == scores[1] != scores[2]


def test_what_an_answer_reports_can_be_sent_back(client: FlaskClient, ids: list[str]) -> None:
    for name in rerank.names():
        first = client.post(SEARCH, json={"image_id": ids[0], "rerank": name})
        second = client.post(SEARCH, json={"image_id": ids[0], "rerank": name, "parameters": used(first)})
        assert second.json["results"] == first.json["results"]


REFUSED = {
    "above the bound": ({"P": 101}, "P must be a whole number from 1 to 100, not 101"),
    "below the bound": ({"C": 0}, "C must be a number from 0.0001 to 10000, not 0"),
    "a text": ({"gamma": "wide"}, "gamma must be a number from 1e-06 to 1e+06 or auto, not 'wide'"),
    "a fraction": ({"P": 2.5}, "P must be a whole number"),
    "a truth": ({"P": True}, "P must be a whole number"),
    "not a number": ({"C": float("nan")}, "C must be a number"),
    "a huge number": ({"P": 10**400}, "P must be a whole number"),
    "an unknown name": ({"Q": 1}, "eprf has no parameter 'Q'; it has: K, N, lam"),
    "a list": ({"P": [1]}, "P must be a number"),
    "null": ({"P": None}, "P must be a number"),
    "no assignment": ("P", "of the form NAME=VALUE, for instance P=9"),
    "the same twice": (["P=3", "P=4"], "P was sent more than once"),
    "a number alone": (9, "must be an object"),
    "too many": ({f"x{n}": 1 for n in range(33)}, "at most 32 items"),
    "a long name": ({"x" * 41: 1}, "at most 40 characters"),
    "a long value": ({"P": "9" * 41}, "at most 40 characters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(client: FlaskClient, ids: list[str], name: str) -> None:
    parameters, expected = REFUSED[name]
    body = json.dumps({"image_id": ids[0], "rerank": "eprf", "parameters": parameters})
    detail = problem(client.post(SEARCH, data=body, content_type="application/json"), 422)
    assert expected in detail
    assert len(detail) < 300


def test_nothing_is_ignored(client: FlaskClient, ids: list[str]) -> None:
    """A search by one image, by several, with judgements and by UIDs checks its parameters alike."""
    judged = [{"image_id": ids[2], "relevance": 1}]
    for body in (
        {"image_id": ids[0]},
        {"image_id": ids[0], "examples": ids[1:2]},
        {"image_id": ids[0], "feedback": judged},
    ):
        for name in ("none", "eprf", "nprf"):
            sent = body | {"rerank": name, "parameters": {"nonsense": 1}}
            assert "nonsense" in problem(client.post(SEARCH, json=sent), 422)
    several = {"image_id": ids[0], "examples": ids[1:2], "parameters": {"flow": 2}}
    answer = client.post(SEARCH, json=several).json
    assert answer["rerank"]["method"] == "feedback"
    assert answer["rerank"]["parameters"]["flow"] == 2
    assert answer["rerank"]["reason"] == "learns from several examples and from judgements"
    refused = problem(client.post(SEARCH, json=several | {"rerank": "diffusion", "parameters": {}}), 422)
    assert "diffusion takes one example" in refused
    assert "feedback, none, eprf, nsu-eprf, svm-eprf, fuzzy-eprf, nprf" in refused
    assert "several examples" in problem(
        client.post(SEARCH, json={"image_id": ids[0], "rerank": "feedback"}), 422
    )


def test_the_values_of_the_paper_by_one_name(client: FlaskClient, ids: list[str]) -> None:
    expected = rerank.get("eprf", preset="paper", P=9).parameters
    for parameters in ({"preset": "paper", "P": 9}, ["preset=paper", "P=9"]):
        answer = client.post(SEARCH, json={"image_id": ids[0], "rerank": "eprf", "parameters": parameters})
        assert used(answer) == expected
    refused = {"image_id": ids[0], "rerank": "fuzzy-eprf", "parameters": {"preset": "paper"}}
    assert "fuzzy-eprf has no preset" in problem(client.post(SEARCH, json=refused), 422)


def test_the_list_is_that_of_the_declarations(client: FlaskClient, ids: list[str]) -> None:
    listed = client.get("/v1/rerankers").json
    assert listed["default"] == "auto"
    methods = {item["name"]: item for item in listed["items"]}
    assert list(methods) == [*rerank.names(), "feedback"]
    for name in rerank.names():
        defaults = {entry["name"]: entry["default"] for entry in methods[name]["parameters"]}
        assert defaults == rerank.get(name).parameters
        assert methods[name]["paper"] == dict(rerank.reranker_class(name).paper)
    assert [entry["name"] for entry in methods["feedback"]["parameters"]] == list(Feedback.parameter_names())
    P = next(entry for entry in methods["eprf"]["parameters"] if entry["name"] == "P")
    assert (P["whole"], P["minimum"], P["maximum"]) == (True, 1, 100)
    examples = {"image_id": ids[0], "examples": ids[1:2]}
    for name, item in methods.items():
        for body, taken in (
            ({"image_id": ids[0]}, item["one_example"]),
            (examples, item["several_examples"]),
        ):
            assert client.post(SEARCH, json=body | {"rerank": name}).status_code == (200 if taken else 422)


def test_the_api_document_has_their_bounds(client: FlaskClient) -> None:
    document = client.get("/openapi.json").json
    schemas = document["components"]["schemas"]
    methods = {item["title"]: item["properties"] for item in schemas["RerankParameters"]["anyOf"]}
    of_eprf = next(properties for title, properties in methods.items() if "eprf" in title.split(", "))
    declared = {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
    }
    assert all(of_eprf["P"][name] == value for name, value in declared.items())
    assert f"by default {rerank.get('eprf').parameters['P']}." in of_eprf["P"]["description"]
    assert {"const": "auto"} in of_eprf["gamma"]["anyOf"]
    for body in ("SearchById", "SearchByVector", "DeprecatedSearchBody"):
        assert schemas[body]["properties"]["parameters"]["$ref"] == "#/components/schemas/RerankParameters"


@pytest.mark.slow
def test_the_client_sends_them(indexed: Path, ids: list[str], pictures: list[Path]) -> None:
    with serving(indexed) as running, Client(running.address) as client:
        assert [item.name for item in client.rerankers().items] == [*rerank.names(), "feedback"]
        for query in (ids[0], pictures[-1], None):
            examples = [] if query else ids[:2]
            answer = client.search(query, rerank="eprf", parameters=SENT, examples=examples)
            assert answer.rerank.parameters == rerank.get("eprf", **SENT).parameters
