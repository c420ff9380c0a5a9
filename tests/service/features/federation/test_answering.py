"""The answering side: who may ask, what leaves, and how much."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection
from cbir.store.index.open_index import open_index
from cbir.system.access_rights import Scope
from tests.service.conftest import problem
from tests.service.features.federation.hospitals import VECTOR, Hospital

pytestmark = pytest.mark.slow

PROFILE, SEARCH = "/v1/federation/profile", "/v1/federation/search"


def question(client: FlaskClient, **more: Any) -> dict[str, Any]:
    """The body of a search that agrees with the service's profile."""
    profile = client.get(PROFILE).json
    return {"vector": VECTOR} | {name: profile[name] for name in ("profile_hash", "transform")} | more


def hits(client: FlaskClient, **more: Any) -> list[dict[str, Any]]:
    response = client.post(SEARCH, json=question(client, **more))
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json["hits"]
    return found


def refused(client: FlaskClient, status: int, **more: Any) -> str:
    return problem(client.post(SEARCH, json=question(client, **more)), status)


def test_only_a_token_for_it_may_ask_and_do_nothing_else(collections: dict[str, Path]) -> None:
    hospital = Hospital(collections["north"])
    asker = hospital.client(Scope.federate)
    assert len(hits(asker, k=7)) == 7
    assert problem(asker.post("/v1/search", json={"vector": VECTOR}), 403)
    assert problem(asker.get("/v1/images"), 403)
    searcher = hospital.client(Scope.search, Scope.ingest, Scope.annotate, Scope.originals)
    assert problem(searcher.get(PROFILE), 403)
    assert problem(searcher.post(SEARCH, json={}), 403)
    assert problem(hospital.app.test_client().get(PROFILE), 401)


def test_without_tokens_no_other_service_is_answered(collections: dict[str, Path]) -> None:
    """Even where this machine needs none: a proxy on it may pass on what others ask."""
    client = Hospital(collections["north"], require_tokens=None).app.test_client()
    assert client.post("/v1/search", json={"vector": VECTOR}).status_code == 200
    for response in (client.get("/v1/federation/profile"), client.post("/v1/federation/search", json={})):
        assert "require_tokens" in problem(response, 403)


def test_names_are_made_up_for_each_caller_and_stay(collections: dict[str, Path]) -> None:
    hospital = Hospital(collections["north"])
    one, other = hospital.client(Scope.federate), hospital.client(Scope.federate)
    named = [[hit["image_id"] for hit in hits(client, k=30)] for client in (one, one, other)]
    assert named[0] == named[1]
    assert not set(named[0]) & set(named[2])
    with Collection(collections["north"]) as collection:
        assert not set(named[0]) & set(collection.image_ids().values())


def test_what_the_settings_let_leave(collections: dict[str, Path]) -> None:
    with Collection(collections["north"]) as collection:
        ids = set(collection.image_ids().values())
    bare = Hospital(collections["north"], federation_labels=()).client(Scope.federate)
    assert all(set(hit) == {"image_id", "distance", "score", "labels", "thumbnail"} for hit in hits(bare))
    assert all(hit["labels"] == {} and hit["thumbnail"] is hit["score"] is None for hit in hits(bare))
    everything = Hospital(
        collections["north"], federation_labels=("label", "ward"), federation_ids=True
    ).client(Scope.federate)
    assert {hit["image_id"] for hit in hits(everything, k=30)} == ids
    assert all(set(hit["labels"]) == {"label", "ward"} for hit in hits(everything))


def test_a_limited_token_finds_its_part_alone(collections: dict[str, Path]) -> None:
    hospital = Hospital(collections["north"], federation_labels=("ward",))
    limited = hospital.client(Scope.federate, where=["ward=1"])
    assert limited.get(PROFILE).json["images"] == 10
    assert {hit["labels"]["ward"] for hit in hits(limited, k=30)} == {"1"}
    elsewhere = hospital.client(Scope.federate, collections=["another"])
    assert problem(elsewhere.get(PROFILE), 404)


def test_few_images_are_not_searched_among(collections: dict[str, Path]) -> None:
    hospital = Hospital(collections["north"], federation_minimum=11, federation_labels=("label", "ward"))
    asker = hospital.client(Scope.federate)
    assert len(hits(asker, k=2)) == 2
    assert "at least 11 images" in refused(asker, 404, where=["ward=1"])
    assert "at least 11 images" in refused(hospital.client(Scope.federate, where=["ward=1"]), 404)


def test_vectors_of_other_profiles_and_transforms_are_refused(collections: dict[str, Path]) -> None:
    asker = Hospital(collections["north"]).client(Scope.federate)
    assert "the sites differ: its transform is 00000000" in refused(asker, 422, transform="0" * 32)
    assert "the sites differ: its profile is another" in refused(asker, 422, profile_hash="0" * 16)
    assert "finite numbers" in refused(asker, 422, vector=[1.0])
    assert refused(asker, 422, vector=[1e39] * 6)
    assert refused(asker, 422, vector=[])
    assert "rerank: auto is another method at each site" in refused(asker, 422, rerank="auto")
    assert refused(asker, 422, rerank="no such method")
    assert "k: at most 100" in refused(asker, 422, k=101)
    assert "does not share that label" in refused(asker, 422, where=["ward=1"])
    assert refused(asker, 422, image_id="0" * 32)


def test_searches_of_one_caller_are_counted(collections: dict[str, Path]) -> None:
    hospital = Hospital(collections["north"], federation_per_minute=2)
    asker = hospital.client(Scope.federate)
    body = question(asker)
    statuses = [asker.post(SEARCH, json=body).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert asker.post(SEARCH, json=body).headers["Retry-After"]
    assert hospital.client(Scope.federate).post(SEARCH, json=body).status_code == 200


def test_thumbnails_leave_where_the_setting_says_so(indexed: Path) -> None:
    hospital = Hospital(indexed, federation_thumbnails=True)
    asker = hospital.client(Scope.federate)
    profile = asker.get(PROFILE).json
    with Collection(indexed) as collection:
        (_, record), *_ = collection.iterate()
        vector = collection.vector(record.image_id).astype(float).tolist()
    found = hits(asker, vector=vector, k=3)
    assert profile["thumbnails"] is True
    assert all(hit["thumbnail"].startswith("/9j/") for hit in found)  # JPEG in base64
    assert hospital.audit_lines[-1]["sent"][-1] == "3 thumbnails"
    closed = Hospital(indexed).client(Scope.federate)
    assert all(hit["thumbnail"] is None for hit in hits(closed, vector=vector, k=3))


def test_with_a_vector_index(collections: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(copytree(collections["north"], tmp_path / "indexed"))
    indexed = {"index": "hnsw", "indexed_candidates": 10}
    with Collection(folder) as collection:
        index = open_index(collection, settings.load(**indexed))
        assert index is not None
        assert index.follower.follow()
        assert index.status().images == len(collection)
    whole = hits(Hospital(collections["north"]).client(Scope.federate), k=5)
    # Beyond `exact_limit` nothing but the index can answer.
    client = Hospital(folder, **indexed, exact_limit=1).client(Scope.federate)
    found = hits(client, k=5)
    assert [hit["distance"] for hit in found] == pytest.approx([hit["distance"] for hit in whole], abs=1e-5)


def test_in_postgresql(
    collections: dict[str, Path], postgresql: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    from cbir.store.postgresql.postgresql_address import files_folder
    from tests.service.features.federation.exchange.collections import create, entries
    from tests.service.features.federation.hospitals import share_transform

    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    address = postgresql.new_address()
    try:
        folder = create(files_folder(address), entries(90)[30:60])
        share_transform(collections["pooled"], [folder])
        in_files = hits(Hospital(collections["north"]).client(Scope.federate), k=30)
        in_database = hits(Hospital(folder).client(Scope.federate), k=30)
        assert [hit["distance"] for hit in in_database] == [hit["distance"] for hit in in_files]
    finally:
        postgresql.drop_schemas([address])
