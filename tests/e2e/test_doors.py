"""The same question gets the same answer at every door: command line, and HTTP in all its forms."""

import json

import httpx
import pytest

from cbir import rerank
from tests.indexer.commands import call


@pytest.fixture
def service(served):
    return served.address


def by_command_line(folder, what, *options):
    """Return the answer without the files of the hits, which the service does not name."""
    answer = json.loads(call("search", what, "--collection", folder, "--format", "json", *options)[0])
    for hit in answer["results"]:
        assert hit.pop("source")
        hit["source"] = None
    return answer


@pytest.mark.parametrize("method", rerank.names())
def test_command_line_and_http_answer_alike(indexed, pictures, service, method):
    query = pictures[-1]  # not in the collection
    expected = by_command_line(indexed, query, "-k", "12", "--rerank", method)
    address = f"{service}/v1/search?k=12&rerank={method}"
    with query.open("rb") as file:
        multipart = httpx.post(address, files={"image": file}).json()
    raw = httpx.post(address, content=query.read_bytes(), headers={"Content-Type": "image/png"}).json()
    assert len(expected["results"]) == 12
    assert expected["results"] == multipart["results"] == raw["results"]
    assert expected["rerank"] == multipart["rerank"] == raw["rerank"]


def test_filters_and_ids_answer_alike(indexed, pictures, service):
    known = by_command_line(indexed, pictures[-1], "-k", "1")["results"][0]["image_id"]
    options = ["-k", "5", "--where", "label=even", "--exclude-patient", "patient-0"]
    expected = by_command_line(indexed, f"id:{known}", *options)
    body = {"image_id": known, "k": 5, "where": ["label=even"], "exclude_patient": "patient-0"}
    answer = httpx.post(f"{service}/v1/search", json=body).json()
    assert expected["results"] == answer["results"]
    assert known not in {hit["image_id"] for hit in answer["results"]}
