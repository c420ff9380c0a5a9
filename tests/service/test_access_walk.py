"""Every operation of the API with a limited token: nothing else may show anywhere."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from service.access.token_stores import Scope
from tests.service.walk_requests import walk
from tests.service.walked_ward import QUARANTINED, make_walked, site_question
from tests.service.wards import HIDDEN, READING, VISIBLE, Ward


@pytest.fixture(scope="session")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return make_walked(tmp_path_factory)


def limited_to_site(ward: Ward) -> FlaskClient:
    """Return a client that may see the images of one site, as a person and as another service."""
    limits = {"collections": [ward.folder.name], "where": [f"site={VISIBLE}"]}
    return ward.client(*READING, Scope.federate, **limits)


def secrets_of(ward: Ward) -> set[str]:
    """Return texts that only the hidden images, or the other collection, have."""
    facts: dict[str, set[str]] = {}
    for site, records in ((VISIBLE, ward.visible), (HIDDEN, ward.hidden)):
        facts[site] = {value for r in records for value in (r.image_id, r.study, r.series, r.instance)}
        facts[site] |= {r.patient_key or "" for r in records} | {r.source for r in records}
        facts[site] |= {text for r in records for pair in r.labels.items() for text in pair if "ward" in text}
    facts[HIDDEN] |= {QUARANTINED.content_hash, QUARANTINED.patient_key or "", QUARANTINED.source}
    return (facts[HIDDEN] - facts[VISIBLE] - {""}) | {ward.other.name, str(ward.folder.parent)}


def secrets_in(answer: Any, secret: set[str], sent: str) -> set[str]:
    """Return the secrets in an answer, but for those that the request has sent."""
    return {text for text in secret if text.encode() in answer.data and text not in sent}


PAGES = (
    "/saved",
    "/",
    "/?collection=secret-collection",
    "/browse",
    "/browse?collection=secret-collection",
    "/similar?study={study}&level=instance&limit=100",
    "/docs",
    "/login",
    "/studies",
)


READING_BY_POST = ("search", "search_batch", "grade", "export_images", "federation_search")
REFUSED = ("audit", "start_audit", "quarantine", "quarantined_thumbnail", "release", "refuse")
FILTERED = {
    "cohorts", "cohort", "next_cohort_batch", "cohort_estimate", "export_cohort",
    "federation_profile", "federation_search",
}  # fmt: skip


def methods(ward: Ward) -> dict[str, tuple[str, str]]:
    """Return method and path of every operation of the API."""
    document = ward.client(Scope.admin).get("/openapi.json").json
    return {
        operation["operationId"]: (method.upper(), path)
        for path, entries in document["paths"].items()
        for method, operation in entries.items()
    }


@pytest.mark.slow
def test_no_operation_shows_anything_outside_of_the_filter(ward: Ward) -> None:
    operations, secret, client = methods(ward), secrets_of(ward), limited_to_site(ward)
    assert len(secret) > 30
    answered: list[str] = []
    for image in (next(r for r in ward.hidden if r.instance), next(r for r in ward.hidden if not r.instance)):
        seen = next(r for r in ward.visible if r.instance)
        requests = walk(ward, image, seen, client)
        assert requests.keys() == operations.keys(), (
            "walk_requests.py lacks an operation, or has one that is gone or not in /openapi.json"
        )
        for name, calls in requests.items():
            for address, options in calls:
                answer = client.open(address, method=operations[name][0], **options)
                shown = secrets_in(answer, secret, address + str(options))
                assert not shown, (name, address, options.get("json"), shown)
                assert answer.status_code < 500, (name, address, answer.text)
                answered += [name] * (answer.status_code == 200)
                assert name not in REFUSED or answer.status_code == 403, (name, address, answer.text)
        for page in PAGES:
            for study in (image.study, seen.study):
                answer = client.get(page.format(study=study))
                shown = secrets_in(answer, secret, page.format(study=study))
                assert not shown, (page, shown)
    assert len(answered) > 30
    assert set(answered) >= FILTERED


@pytest.mark.slow
def test_an_administrator_of_one_collection_is_refused_audit_and_quarantine(ward: Ward) -> None:
    operations, client = methods(ward), ward.client(Scope.admin, collections=[ward.folder.name])
    requests = walk(ward, ward.hidden[0], ward.visible[0])
    for name in REFUSED:
        for address, options in requests[name]:
            assert client.open(address, method=operations[name][0], **options).status_code == 403, address
    kept = ward.client(Scope.admin).get("/v1/quarantine").json["items"]
    assert [item["image_id"] for item in kept] == [QUARANTINED.content_hash]


@pytest.mark.slow
def test_another_service_finds_the_images_of_its_filter_only(ward: Ward) -> None:
    client, question = limited_to_site(ward), site_question(ward, ward.hidden[0])
    hits = client.post("/v1/federation/search", json=question).json["hits"]
    assert {hit["image_id"] for hit in hits} == {record.image_id for record in ward.visible}
    assert client.get("/v1/federation/profile").json["images"] == len(ward.visible)


@pytest.mark.slow
def test_the_walk_finds_secrets_without_a_limit(ward: Ward) -> None:
    operations, secret, client = methods(ward), secrets_of(ward), ward.client(Scope.admin)
    image, seen = (next(r for r in records if r.instance) for records in (ward.hidden, ward.visible))
    leaking = set()
    for name, calls in walk(ward, image, seen).items():
        if operations[name][0] != "GET" and name not in READING_BY_POST:
            continue
        for address, options in calls:
            answer = client.open(address, method=operations[name][0], **options)
            if secrets_in(answer, secret, address + str(options)):
                leaking.add(name)
    assert leaking >= {
        "search", "search_batch", "export_images", "series", "labels", "label_values", "grade",
        "images", "image", "collections", "collection", "statistics", "history", "ready",
        "metrics", "priors", "similar", "similar_to_instance", "similar_to_series", "similar_to_study",
        "audit", "quarantine", "federation_search", "cohort", "export_cohort",
    }  # fmt: skip


def test_unknown_and_forbidden_are_the_same(ward: Ward) -> None:
    operations, client = methods(ward), ward.limited()
    image = next(r for r in ward.hidden if r.instance)
    no_such = image.image_id[::-1]
    for name in (
        "image",
        "thumbnail",
        "picture",
        "original",
        "set_labels",
        "search",
        "grade",
        "explain",
        "priors",
        "vector",
        "vectors",
    ):
        for address, options in walk(ward, image, ward.visible[0])[name]:
            text = json.dumps(options.get("json"))
            if image.image_id not in address + text:
                continue
            masked = (
                {"json": json.loads(text.replace(image.image_id, no_such))} if "json" in options else options
            )
            method = operations[name][0]
            real = client.open(address, method=method, **options)
            unknown = client.open(address.replace(image.image_id, no_such), method=method, **masked)
            assert real.status_code == unknown.status_code == 404, (name, address, real.text)
            assert real.text.replace(image.image_id, "") == unknown.text.replace(no_such, "")
            assert set(real.headers.keys()) == set(unknown.headers.keys())
    assert "secret" in client.get("/v1/collection?collection=secret-collection").text
    real, unknown = (client.get(f"/v1/images?collection={name}") for name in ("secret-collection", "none"))
    assert (real.status_code, real.text.replace("secret-collection", "")) == (
        404,
        unknown.text.replace("none", ""),
    )
