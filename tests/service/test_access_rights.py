"""Tokens that are limited to collections and to images by their labels: nothing else may show anywhere."""

import io
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from flask.testing import FlaskClient
from typer.testing import CliRunner

from cbir import settings
from cbir.grading import make_ranker
from cbir.grading.grader import fit_grader
from cbir.main import app as commands
from cbir.store import Collection, Record, originals
from service.access.tokens import Scope, TokenStore, TokensUnreadable
from service.app import create_app
from tests.service import dicom_collection
from tests.service.conftest import problem

VISIBLE, HIDDEN = "ward-a", "ward-b"
UNKNOWN = "0" * 32
READING = (Scope.search, Scope.annotate, Scope.originals)


class Ward(NamedTuple):
    """A service over two collections; half of the first one's images have the label site=ward-a."""

    folder: Path
    other: Path
    app: Flask
    tokens: TokenStore
    visible: list[Record]
    hidden: list[Record]

    def client(self, *scopes: Scope, **limits: Any) -> FlaskClient:
        """Return a client that sends a new token."""
        client = self.app.test_client()
        _, text = self.tokens.create(scopes, **limits)
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
        return client

    def limited(self) -> FlaskClient:
        """Return a client that may see the images of one site in one collection."""
        return self.client(*READING, collections=[self.folder.name], where=[f"site={VISIBLE}"])


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    made, _ = dicom_collection.make(tmp_path_factory)
    folder = tmp_path_factory.mktemp("wards")
    one, two = folder / "hand", folder / "secret-collection"
    shutil.copytree(made, one)
    with Collection(one) as collection, collection.writer() as writer:
        records = [record for _, record in collection.iterate()]
        for number, record in enumerate(records):
            site = (VISIBLE, HIDDEN)[number % 2]
            marker = {"marker": f"{site}-{number}", "severity": str(number), f"key-{site}": "x"}
            writer.set_labels(record.image_id, {"site": site, **marker})
        for record in records:
            original = originals.original_path(one, record.source)
            assert original is None
    with Collection(one) as collection:
        fit_grader(collection, "severity", make_ranker("s-ndcg"))
        records = [record for _, record in collection.iterate()]
    shutil.copytree(one, two)
    tokens = TokenStore(folder / "state")
    active = settings.load(require_tokens=True, state_folder=tokens.file.parent)
    sites = {site: [r for r in records if r.labels["site"] == site] for site in (VISIBLE, HIDDEN)}
    return Ward(one, two, create_app([one, two], active), tokens, sites[VISIBLE], sites[HIDDEN])


def secrets_of(ward: Ward) -> set[str]:
    """Return texts that only the hidden images, or the other collection, have."""
    facts: dict[str, set[str]] = {}
    for site, records in ((VISIBLE, ward.visible), (HIDDEN, ward.hidden)):
        facts[site] = {value for r in records for value in (r.image_id, r.study, r.series, r.instance)}
        facts[site] |= {r.patient_key or "" for r in records} | {r.source for r in records}
        facts[site] |= {text for r in records for pair in r.labels.items() for text in pair if "ward" in text}
    return (facts[HIDDEN] - facts[VISIBLE] - {""}) | {ward.other.name, str(ward.folder.parent)}


def secrets_in(answer: Any, secret: set[str], sent: str) -> set[str]:
    """Return the secrets in an answer, but for those that the request has sent."""
    return {text for text in secret if text.encode() in answer.data and text not in sent}


def walk(ward: Ward, image: Record, seen: Record) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return requests about `image` for every operation of the API; `seen` is a visible image."""
    picture = Path(image.source).read_bytes()
    name, key = image.image_id, image.patient_key or UNKNOWN
    uids = f"studies/{image.study}/series/{image.series}/instances/{image.instance}"
    study, series = f"studies/{image.study}", f"studies/{image.study}/series/{image.series}"
    upload = {"data": picture, "content_type": "application/octet-stream"}
    two = f"collection={ward.other.name}"
    judged = [{"image_id": name, "relevance": 1}]
    everything = "level=instance&limit=1000&includefield=all"
    return {
        "health": [("/healthz", {})],
        "alive": [("/livez", {})],
        "ready": [("/readyz", {})],
        "metrics": [("/metrics", {})],
        "openapi": [("/openapi.json", {})],
        "search": [
            ("/v1/search", {"json": {"image_id": name, "k": 1000}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "k": 1000}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "k": 1000, "rerank": "none"}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "k": 1000, "where": [f"site={HIDDEN}"]}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "where": [f"site!={VISIBLE}"]}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "exclude_patient": key, "k": 1000}}),
            ("/v1/search", {"json": {"examples": [seen.image_id, name]}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "feedback": judged}}),
            ("/v1/search", {"json": {"image_id": name, "region": [0, 0, 8, 8]}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "collection": ward.other.name}}),
            ("/v1/search?k=1000", upload),
            ("/v1/search", {"data": {"image": (io.BytesIO(picture), "a"), "feedback": json.dumps(judged)}}),
        ],
        "render": [("/v1/render", upload)],
        "grade": [
            ("/v1/grade", {"json": {"image_id": name}}),
            ("/v1/grade", {"json": {"image_id": seen.image_id}}),
            ("/v1/grade", {"json": {"image_id": seen.image_id, "grade_column": f"key-{HIDDEN}"}}),
            ("/v1/grade", upload),
            (f"/v1/grade?{two}", upload),
        ],
        "images": [
            ("/v1/images?limit=1000", {}),
            ("/v1/images?limit=2&cursor=1", {}),
            (f"/v1/images?where=site={HIDDEN}", {}),
            ("/v1/images?where=severity>=0", {}),
            (f"/v1/images?{two}", {}),
        ],
        "image": [(f"/v1/images/{name}", {}), (f"/v1/images/{seen.image_id}?{two}", {})],
        "thumbnail": [
            (f"/v1/images/{name}/thumbnail", {}),
            (f"/v1/images/{seen.image_id}/thumbnail?{two}", {}),
        ],
        "picture": [
            (f"/v1/images/{name}/picture", {}),
            (f"/v1/images/{name}/picture?region=0,0,8,8", {}),
            (f"/v1/images/{seen.image_id}/picture?{two}", {}),
        ],
        "original": [(f"/v1/images/{name}/original", {}), (f"/v1/images/{seen.image_id}/original?{two}", {})],
        "set_labels": [(f"/v1/images/{name}", {"json": {"labels": {"note": "x"}}})],
        "delete": [(f"/v1/images/{name}", {})],
        "add": [("/v1/images", upload)],
        "store_instances": [("/dicomweb/studies", upload)],
        "collections": [("/v1/collections", {})],
        "collection": [("/v1/collection", {}), (f"/v1/collection?{two}", {})],
        "profile": [("/v1/collection/profile", {}), (f"/v1/collection/profile?{two}", {})],
        "statistics": [("/v1/collection/statistics", {}), (f"/v1/collection/statistics?{two}", {})],
        "history": [("/v1/collection/history", {}), (f"/v1/collection/history?{two}", {})],
        "jobs": [("/v1/jobs", {})],
        "job": [(f"/v1/jobs/{name}", {})],
        "index": [("/v1/jobs", {"json": {"folder": "/", "collection": ward.other.name}})],
        "cancel": [(f"/v1/jobs/{name}/cancel", {})],
        "erase_patient": [(f"/v1/patients/{key}", {}), (f"/v1/patients/{key}?{two}", {})],
        "similar": [
            (f"/v1/similar?study={image.study}&series={image.series}&instance={image.instance}", {}),
            (f"/v1/similar?study={image.study}&level=study&limit=1000", {}),
            (f"/v1/similar?study={seen.study}&exclude=instance&limit=1000", {}),
            (f"/v1/similar?study={seen.study}&level=study&limit=1000&where=site={HIDDEN}", {}),
            (f"/v1/similar?study={seen.study}&{two}", {}),
        ],
        "similar_to_instance": [(f"/dicomweb/{uids}/similar?{everything}", {})],
        "similar_to_series": [(f"/dicomweb/{series}/similar?{everything}", {})],
        "similar_to_study": [
            (f"/dicomweb/{study}/similar?{everything}", {}),
            (f"/dicomweb/studies/{seen.study}/similar?{everything}", {}),
            (f"/dicomweb/studies/{seen.study}/similar?level=study&limit=1000&exclude=instance", {}),
        ],
    }


PAGES = (
    "/",
    "/?collection=secret-collection",
    "/similar?study={study}&level=instance&limit=100",
    "/docs",
    "/login",
)


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
    operations, secret, client = methods(ward), secrets_of(ward), ward.limited()
    assert len(secret) > 30
    answered = 0
    for image in (next(r for r in ward.hidden if r.instance), next(r for r in ward.hidden if not r.instance)):
        seen = next(r for r in ward.visible if r.instance)
        requests = walk(ward, image, seen)
        assert requests.keys() == operations.keys(), "the walk lacks an operation, or has one that is gone"
        for name, calls in requests.items():
            for address, options in calls:
                answer = client.open(address, method=operations[name][0], **options)
                shown = secrets_in(answer, secret, address + str(options))
                assert not shown, (name, address, options.get("json"), shown)
                assert answer.status_code < 500, (name, address, answer.text)
                answered += answer.status_code == 200
        for page in PAGES:
            for study in (image.study, seen.study):
                answer = client.get(page.format(study=study))
                shown = secrets_in(answer, secret, page.format(study=study))
                assert not shown, (page, shown)
    assert answered > 30


@pytest.mark.slow
def test_the_walk_finds_secrets_without_a_limit(ward: Ward) -> None:
    operations, secret, client = methods(ward), secrets_of(ward), ward.client(Scope.admin)
    image, seen = (next(r for r in records if r.instance) for records in (ward.hidden, ward.visible))
    leaking = set()
    for name, calls in walk(ward, image, seen).items():
        if operations[name][0] != "GET" and name not in ("search", "grade"):
            continue
        for address, options in calls:
            answer = client.open(address, method=operations[name][0], **options)
            if secrets_in(answer, secret, address + str(options)):
                leaking.add(name)
    assert leaking >= {
        "search", "grade", "images", "image", "collections", "collection", "statistics", "history", "ready",
        "metrics", "similar", "similar_to_instance", "similar_to_series", "similar_to_study",
    }  # fmt: skip


def test_unknown_and_forbidden_are_the_same(ward: Ward) -> None:
    operations, client = methods(ward), ward.limited()
    image = next(r for r in ward.hidden if r.instance)
    no_such = image.image_id[::-1]
    for name in ("image", "thumbnail", "picture", "original", "set_labels", "search", "grade"):
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


def test_counts_are_those_of_the_filter(ward: Ward) -> None:
    client, count = ward.limited(), len(ward.visible)
    info, statistics = client.get("/v1/collection").json, client.get("/v1/collection/statistics").json
    assert info["images"] == statistics["images"] == count
    assert statistics["labels"]["site"] == {VISIBLE: count}
    assert statistics["normalisation"] is None
    assert (info["statistics_fitted_on"], info["snapshot"], info["bytes_on_disk"]) == (None, None, 0)
    assert statistics["patients"] == len({r.patient_key for r in ward.visible} - {None})
    assert client.get("/v1/collections").json == {"collections": ["hand"], "default": "hand"}
    assert client.get("/readyz").json == {"status": "ready"}
    assert f"<dt>Images</dt><dd>{count}</dd>" in client.get("/").text
    listed = client.get("/v1/images?limit=1000").json["items"]
    assert [item["image_id"] for item in listed] == [r.image_id for r in ward.visible]


@pytest.mark.parametrize("method", ["none", "eprf", "pc", "aqe", "k-reciprocal", "diffusion"])
def test_a_search_is_that_of_the_filter(ward: Ward, method: str) -> None:
    """Scores too: hidden images have no part in the minima, negatives and neighbours of a re-ranking."""
    query = {"image_id": ward.visible[0].image_id, "k": 1000, "rerank": method}
    limited = ward.limited().post("/v1/search", json=query)
    whole = ward.client(Scope.search).post("/v1/search", json=query | {"where": [f"site={VISIBLE}"]})
    assert limited.status_code == whole.status_code == 200
    assert len(limited.json["results"]) == len(ward.visible) - 1
    assert limited.json["results"] == whole.json["results"]
    assert limited.json["rerank"] == whole.json["rerank"]


def test_conditions_that_compare(ward: Ward) -> None:
    for where, expected in (
        (["severity>=10", f"site={HIDDEN}"], [r for r in ward.hidden if float(r.labels["severity"]) >= 10]),
        ([f"site!={HIDDEN}"], ward.visible),
        (["site=none"], []),
        (["modality=CT", "severity<1e3"], None),
        (["note=it's; DROP TABLE images --"], []),
    ):
        client = ward.client(Scope.search, where=where, collections=["hand"])
        items = client.get("/v1/images?limit=1000").json["items"]
        if expected is not None:
            assert [item["image_id"] for item in items] == [r.image_id for r in expected]
        else:
            assert items
            assert {item["labels"]["modality"] for item in items} == {"CT"}
        assert client.get("/").status_code == 200


def test_labels_of_visible_images_alone_can_be_changed(ward: Ward, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ward.folder, tmp_path / "hand"))
    active = settings.load(require_tokens=True, state_folder=ward.tokens.file.parent)
    client = create_app(folder, active).test_client()
    _, text = ward.tokens.create(READING, where=[f"site={VISIBLE}"])
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    seen, hidden = (f"/v1/images/{r[0].image_id}" for r in (ward.visible, ward.hidden))
    assert client.patch(seen, json={"labels": {"note": "fine"}}).json["labels"]["note"] == "fine"
    problem(client.patch(hidden, json={"labels": {"note": "fine"}}), 404)
    for change in ({"site": HIDDEN}, {"site": None}, {"site": VISIBLE}):
        assert "site" in problem(client.patch(seen, json={"labels": change}), 403)
    with Collection(folder) as collection:
        assert "note" not in collection.record(ward.hidden[0].image_id).labels
        with collection.writer() as writer:
            writer.set_labels(ward.hidden[0].image_id, {"site": VISIBLE})
            writer.set_labels(ward.visible[0].image_id, {"site": HIDDEN})
    assert client.get(hidden).status_code == 200, "the filter follows the labels"
    problem(client.get(seen), 404)
    hits = client.post("/v1/search", json={"image_id": ward.visible[1].image_id, "k": 1000}).json["results"]
    ids = {hit["image_id"] for hit in hits}
    assert ward.hidden[0].image_id in ids
    assert ward.visible[0].image_id not in ids


def test_collections_of_other_callers(ward: Ward) -> None:
    """A token for one collection may do everything there, and learns nothing of the other one."""
    client = ward.client(Scope.admin, collections=["secret-collection"])
    assert client.get("/v1/collections").json == {
        "collections": ["secret-collection"],
        "default": "secret-collection",
    }
    assert client.get("/v1/collection").json["name"] == "secret-collection"
    for address in ("/v1/collection/history", "/v1/images", "/v1/collection/statistics"):
        assert client.get(address).status_code == 200
        assert "hand" not in problem(client.get(f"{address}?collection=hand"), 404).replace(
            "named hand", ""
        ).replace("collection hand;", "")
    problem(client.delete(f"/v1/images/{UNKNOWN}?collection=hand"), 404)
    problem(client.get("/metrics"), 403)
    assert client.get("/readyz").json == {"status": "ready"}
    none = ward.client(Scope.search, collections=["gone"])
    for address in ("/v1/collection", "/v1/images", "/v1/collections"):
        assert "hand" not in problem(none.get(address), 404)
    assert none.get("/").status_code == 404


def test_a_filter_does_not_go_with_adding_or_deleting(tmp_path: Path) -> None:
    state = {"CBIR_STATE_FOLDER": str(tmp_path)}
    create = ["token", "create", "--collection", "hand", "--where", "site=A", "--scope"]
    for scope in ("ingest", "admin"):
        refused = CliRunner().invoke(commands, [*create, scope], env=state)
        assert refused.exit_code != 0
    assert not (tmp_path / "tokens.json").exists()
    for wrong in ("site", "severity>=high", "severity<inf", "=x"):
        assert (
            CliRunner()
            .invoke(commands, ["token", "create", "--scope", "search", "--where", wrong], env=state)
            .exit_code
        )
    made = CliRunner().invoke(commands, [*create, "search"], env=state)
    assert made.exit_code == 0, made.output
    listed = CliRunner().invoke(commands, ["token", "list"], env=state).output
    assert "[collection hand, where site=A]" in listed
    file = tmp_path / "tokens.json"
    file.write_text(file.read_text().replace('"search"', '"admin"'))
    file.chmod(0o600)
    with pytest.raises(TokensUnreadable):
        TokenStore(tmp_path).all()


def test_originals_need_their_own_scope(writable: Path, tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state")
    active = settings.load(require_tokens=True, state_folder=tokens.file.parent, keep_originals=True)
    client = create_app(writable, active).test_client()

    def bearer(*scopes: Scope) -> dict[str, str]:
        return {"Authorization": f"Bearer {tokens.create(scopes)[1]}"}

    instance = dicom_with_name()
    added = client.post(
        "/v1/images", data=instance, content_type="application/dicom", headers=bearer(Scope.ingest)
    )
    (name,) = added.json["ids"]
    reader = bearer(Scope.search, Scope.annotate, Scope.ingest)
    assert "originals" in problem(client.get(f"/v1/images/{name}/original", headers=reader), 403)
    assert client.get(f"/v1/images/{name}/original", headers=bearer(Scope.originals)).data == instance
    assert client.get(f"/v1/images/{name}/original", headers=bearer(Scope.admin)).data == instance
    for address in ("", "/thumbnail", "/picture", "/picture?region=0,0,8,8"):
        answer = client.get(f"/v1/images/{name}{address}", headers=reader)
        assert answer.status_code == 200
        assert b"Doe" not in answer.data
        assert b"4711" not in answer.data


def dicom_with_name() -> bytes:
    """Return a DICOM file with a patient's name and identifier."""
    from tests.indexer.receiving import file_of, slices

    (item,) = slices(1, 48, seed=77)
    item.PatientName, item.PatientID = "Doe^Jane", "4711"
    return file_of(item)
