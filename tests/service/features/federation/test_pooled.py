"""Answers of three services against that of the collection with the images of all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from cbir.store import Collection
from cbir.system.access_rights import Scope
from service.features.federation.federated_search import reserved_places
from tests.service.conftest import problem
from tests.service.features.federation.hospitals import VECTOR, Hospital, asking

OTHERS = ("north", "east")
Found = list[tuple[str, float]]


def search(client: FlaskClient, **fields: Any) -> Any:
    response = client.post("/v1/search", json={"vector": VECTOR, **fields})
    assert response.status_code == 200, response.text
    return response.json


def found(answer: Any) -> Found:
    return [(hit["image_id"], hit["distance"]) for hit in answer["results"]]


def by_distance(answer: Any, count: int) -> tuple[list[float], list[tuple[float, str]]]:
    """The first distances, and the images nearer than the last: only one collection knows which are twins."""
    first = found(answer)[:count]
    distances = [distance for _, distance in first]
    return distances, sorted((distance, image) for image, distance in first if distance < distances[-1])


@pytest.mark.slow
def test_merged_answers_are_those_of_the_pooled_collection(collections: dict[str, Path]) -> None:
    pooled = Hospital(collections["pooled"]).client(Scope.search)
    others = {name: collections[name] for name in OTHERS}
    random = np.random.default_rng(5)
    with asking(collections["south"], others, {"federation_ids": True}) as (south, _):
        client = south.client(Scope.search)
        for k in (1, 7, 40, 90):
            for vector in random.integers(0, 4, (6, 6)).astype(float).tolist():
                merged = search(client, vector=vector, k=k, federated=True)
                expected = search(pooled, vector=vector, k=k, rerank="none")
                kept = reserved_places(3, k)
                certain = k if all(site["results"] > kept for site in merged["sites"]) else k - 3 * kept
                assert certain >= k / 2
                assert by_distance(merged, certain) == by_distance(expected, certain)
                assert min(site["results"] for site in merged["sites"]) >= kept
                assert [hit["rank"] for hit in merged["results"]] == list(range(1, k + 1))
                assert sum(site["results"] for site in merged["sites"]) == k
        assert {hit["site"] for hit in merged["results"]} == {None, *OTHERS}
        assert [site["images"] for site in merged["sites"]] == [30, 30, 30]
        ties = [distance for _, distance in found(merged)]
        assert len(set(ties)) < len(ties) / 2  # the vectors are made so that there are many
        filtered = search(client, k=20, where=["label=odd"], federated=True)
        expected = search(pooled, k=20, where=["label=odd"], rerank="none")
        assert by_distance(filtered, 20) == by_distance(expected, 20)
        assert {hit["labels"]["label"] for hit in filtered["results"]} == {"odd"}


@pytest.mark.slow
def test_by_default_distances_and_counts_leave_alone(collections: dict[str, Path]) -> None:
    with asking(collections["south"], {"north": collections["north"]}) as (south, hospitals):
        answer = search(south.client(Scope.search), k=60, federated=True)
        elsewhere = [hit for hit in answer["results"] if hit["site"] == "north"]
        assert len(elsewhere) == 30
        with_ids = {hit["image_id"] for hit in answer["results"] if hit["site"] is None}
        assert not with_ids & {hit["image_id"] for hit in elsewhere}
        for hit in elsewhere:
            assert hit["patient"] is None
            assert hit["dicom"] is None
            assert hit["links"]["thumbnail"] == hit["links"]["image"] == ""
            assert set(hit["labels"]) == {"label"}  # the one that the setting names
        # What leaves is in the log of both sides; the answering one knows which images.
        asked, answered = south.audit_lines[-1], hospitals["north"].audit_lines[-1]
        assert (asked["action"], asked["sent"]) == ("search", ["vector to north"])
        assert answered["action"] == "site-search"
        assert answered["sent"] == ["30 distances", "number of images", "label label"]
        assert answered["image_count"] == 30
        assert answered["token"]
        assert [line["action"] for line in hospitals["north"].audit_lines] == ["site-profile", "site-search"]


@pytest.mark.slow
def test_each_query_of_a_batch_has_what_it_sent_in_the_log(collections: dict[str, Path]) -> None:
    with asking(collections["south"], {name: collections[name] for name in OTHERS}) as (south, _):
        queries = [{"vector": VECTOR, "sites": [name]} for name in OTHERS]
        response = south.client(Scope.search).post("/v1/search/batch", json={"queries": queries})
        assert all(item["answer"] for item in response.json["items"]), response.text
        assert south.audit_lines[-1]["sent"] == ["vector to north", "vector to east"]


@pytest.mark.slow
def test_the_limits_of_a_caller_hold_for_images_of_other_sites(collections: dict[str, Path]) -> None:
    shared = {"federation_labels": ("label", "ward")}
    with asking(collections["south"], {"north": collections["north"]}, shared) as (south, _):
        client = south.client(Scope.search, where=["ward=1"])
        for where, wards in (([], {"1"}), (["label=odd"], {"1"}), (["ward=2"], set()), (["ward!=1"], set())):
            answer = search(client, k=60, where=where, federated=True)
            elsewhere = [hit for hit in answer["results"] if hit["site"] == "north"]
            assert {hit["labels"]["ward"] for hit in elsewhere} == wards
            assert bool(elsewhere) == bool(wards)
        whole = search(south.client(Scope.search), k=60, where=["ward=1", "ward=2"], federated=True)
        assert {hit["labels"]["ward"] for hit in whole["results"]} == {"1", "2"}
    with asking(collections["south"], {"north": collections["north"]}) as (south, _):
        answer = search(south.client(Scope.search, where=["ward=1"]), k=60, federated=True)
        assert {hit["site"] for hit in answer["results"]} == {None}
        assert "does not share that label" in answer["sites"][1]["problem"]


@pytest.mark.slow
def test_a_site_that_answers_fewer_results_is_named(collections: dict[str, Path]) -> None:
    with asking(collections["south"], {"north": collections["north"]}, {"federation_results": 5}) as (
        south,
        _,
    ):
        client = south.client(Scope.search)
        assert search(client, k=20, federated=True)["sites"][1]["notes"] == ["it answers at most 5 results"]
        assert search(client, k=5, federated=True)["sites"][1]["notes"] == []


@pytest.mark.slow
def test_likeness_is_said_only_where_no_other_site_has_a_nearer_image(collections: dict[str, Path]) -> None:
    with Collection(collections["north"]) as opened:
        theirs = opened.raw_vectors(np.array([number for number, _ in opened.iterate()]))
    with Collection(collections["south"]) as opened:
        ours = opened.raw_vectors(np.array([number for number, _ in opened.iterate()]))
    alone = next(vector for vector in theirs if not (ours == vector).all(axis=1).any())
    with asking(collections["south"], {"north": collections["north"]}) as (south, _):
        client = south.client(Scope.search)
        for vector, is_said in ((alone, False), (ours[0], True)):
            here = search(client, vector=vector.tolist(), rerank="none")["query"]
            merged = search(client, vector=vector.tolist(), federated=True)["query"]
            assert here["likeness"] is not None
            assert merged == (here if is_said else {**here, "likeness": None, "outlier": None})


@pytest.mark.slow
def test_reranked_answers_merge_ranks(collections: dict[str, Path]) -> None:
    with asking(collections["south"], {"north": collections["north"]}) as (south, _):
        client = south.client(Scope.search)
        answer = search(client, k=20, rerank="aqe", parameters={"P": 3}, federated=True)
        assert answer["rerank"]["method"] == "aqe"
        assert "ranks are merged" in answer["rerank"]["notes"][-1]
        assert [site["results"] for site in answer["sites"]] == [10, 10]
        by_auto = search(client, k=5, rerank="auto", federated=True)
        assert by_auto["rerank"]["method"] == "none"


@pytest.mark.slow
def test_what_other_sites_cannot_be_asked_is_refused_before_anything_leaves(
    collections: dict[str, Path],
) -> None:
    with asking(collections["south"], {"north": collections["north"]}) as (south, hospitals):
        client = south.client(Scope.search)

        def refused(**fields: Any) -> str:
            body = {"vector": VECTOR, "federated": True, **fields}
            return problem(client.post("/v1/search", json=body), 422)

        assert refused(group_by="patient").startswith("group_by: does not combine with federated")
        assert refused(max_distance=3).startswith("max_distance: does not")
        assert refused(sites=["west"]) == "sites: there is no west; there are: north"
        assert "one image or vector" in refused(vector=[VECTOR, VECTOR])
        assert not hospitals["north"].audit_lines
        # A label that the other site does not share is its own business.
        answer = search(client, where=["ward=1"], federated=True)
        assert "does not share that label" in answer["sites"][1]["problem"]
        assert {hit["site"] for hit in answer["results"]} == {None}


def test_a_service_that_knows_no_others_says_so(collections: dict[str, Path]) -> None:
    client = Hospital(collections["south"]).client(Scope.search)
    body = {"vector": VECTOR, "federated": True}
    assert "this service knows no other" in problem(client.post("/v1/search", json=body), 422)
