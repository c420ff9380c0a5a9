"""Requests about one image, for every operation of the API."""

import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from flask.testing import FlaskClient

from cbir.store import Record
from service.access.token_stores import Scope
from service.client.collection_messages import path_in_collection
from tests.service.walked_ward import QUARANTINED, site_question
from tests.service.wards import HIDDEN, UNKNOWN, VISIBLE, Ward

Calls = list[tuple[str, dict[str, Any]]]
DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
NAMES = {operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()}


def walk(ward: Ward, image: Record, seen: Record, client: FlaskClient | None = None) -> dict[str, Calls]:
    """Return requests about an image for every operation of the API, at both addresses where there are two.

    Parameters are those of `older_requests`.
    """
    requests = {}
    for name, calls in older_requests(ward, image, seen, client).items():
        older = {f"deprecated_{name}", f"{name}_of_default"} & NAMES
        requests[older.pop() if older else name] = calls
    for name, calls in older_requests(ward, image, seen, client).items():  # files are read once
        if name not in requests:
            requests[name] = [in_collection(*call, ward.folder.name) for call in calls]
    return requests


def in_collection(address: str, options: dict[str, Any], default: str) -> tuple[str, dict[str, Any]]:
    """Return a request with the name of its collection in the address."""
    parts = urlsplit(address)
    name = next((value for key, value in parse_qsl(parts.query) if key == "collection"), None)
    query = "&".join(each for each in parts.query.split("&") if not each.startswith("collection="))
    for kind in ("json", "data"):
        if isinstance(options.get(kind), dict):
            fields = dict(options[kind])
            name = fields.pop("collection", name)
            options = options | {kind: fields}
    path = path_in_collection(parts.path, name or default)
    return f"{path}?{query}" if query else path, options


def older_requests(
    ward: Ward, image: Record, seen: Record, client: FlaskClient | None = None
) -> dict[str, Calls]:
    """Return requests about an image for every operation of the API, at addresses without a collection.

    Parameters
    ----------
    ward : Ward
        The service.
    image, seen : Record
        The image, and a visible one.
    client : FlaskClient, optional
        Owner of the cohort of visible images; another limited caller by default.
    """
    picture = Path(image.source).read_bytes()
    name, key = image.image_id, image.patient_key or UNKNOWN
    uids = f"studies/{image.study}/series/{image.series}/instances/{image.instance}"
    study, series = f"studies/{image.study}", f"studies/{image.study}/series/{image.series}"
    upload = {"data": picture, "content_type": "application/octet-stream"}
    two = f"collection={ward.other.name}"
    judged = [{"image_id": name, "relevance": 1}]
    case_id = _shared_case(ward, image, seen)
    cohorts = shared_cohorts(ward, image, seen, client or ward.limited())
    question = site_question(ward, image)
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
            ("/v1/search", {"json": {"image_id": seen.image_id, "where": "key-ward-x?"}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "group_by": "key-ward-x"}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "k": 1000, "group_by": "marker"}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "k": 1000, "group_by": "patient"}}),
            ("/v1/search", {"json": {"image_id": seen.image_id, "k": 1000, "where": "!marker?"}}),
        ],
        "search_batch": [
            (
                "/v1/search/batch",
                {"json": {"queries": [{"image_id": name}, {"image_id": seen.image_id, "k": 1000}]}},
            ),
            (
                "/v1/search/batch",
                {"json": {"queries": [{"image_id": seen.image_id, "where": "key-ward-x?"}]}},
            ),
            ("/v1/search/batch", {"data": {"image": (io.BytesIO(picture), "a"), "k": "1000"}}),
        ],
        "vector": [
            (f"/v1/images/{name}/vector", {}),
            (f"/v1/images/{seen.image_id}/vector?raw=true", {}),
            (f"/v1/images/{seen.image_id}/vector?{two}", {}),
        ],
        "vectors": [
            ("/v1/vectors", {"json": {"ids": [name]}}),
            ("/v1/vectors", {"json": {"ids": [seen.image_id, name], "raw": True}}),
        ],
        "labels": [("/v1/labels", {}), (f"/v1/labels?where=site={HIDDEN}", {}), (f"/v1/labels?{two}", {})],
        "label_values": [
            ("/v1/labels/marker?limit=1000", {}),
            ("/v1/labels/severity", {}),
            (f"/v1/labels/key-{HIDDEN}", {}),
            ("/v1/labels/key-ward-x", {}),
            (f"/v1/labels/marker?{two}", {}),
        ],
        "map": [("/v1/map", {}), (f"/v1/map?{two}", {})],
        "map_labels": [
            ("/v1/map/labels/marker", {}),
            (f"/v1/map/labels/key-{HIDDEN}", {}),
            (f"/v1/map/labels/marker?{two}", {}),
        ],
        "map_places": [
            ("/v1/map/places", {"json": {"ids": [name]}}),
            (f"/v1/map/places?{two}", {"json": {"ids": [seen.image_id]}}),
        ],
        "image_records": [
            ("/v1/images/records", {"json": {"ids": [seen.image_id, name]}}),
            (f"/v1/images/records?{two}", {"json": {"ids": [seen.image_id]}}),
        ],
        "render": [("/v1/render", upload)],
        "grade": [
            ("/v1/grade", {"json": {"image_id": name}}),
            ("/v1/grade", {"json": {"image_id": seen.image_id}}),
            ("/v1/grade", {"json": {"image_id": seen.image_id, "grade_column": f"key-{HIDDEN}"}}),
            ("/v1/grade", upload),
            (f"/v1/grade?{two}", upload),
        ],
        "explain": [
            ("/v1/explain", {"json": {"image_id": name, "answers": [seen.image_id]}}),
            ("/v1/explain", {"json": {"image_id": seen.image_id, "answers": [seen.image_id, name]}}),
            (f"/v1/explain?{two}", {"json": {"image_id": seen.image_id, "answers": [seen.image_id]}}),
        ],
        "images": [
            ("/v1/images?limit=1000", {}),
            ("/v1/images?limit=2&cursor=1", {}),
            (f"/v1/images?where=site={HIDDEN}", {}),
            ("/v1/images?limit=1000&sort=-label:marker", {}),
            (f"/v1/images?limit=1000&study={image.study}", {}),
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
        "series": [
            ("/v1/series?limit=1000", {}),
            ("/v1/series?level=study&limit=1000", {}),
            (f"/v1/series?where=site={HIDDEN}", {}),
            (f"/v1/series?{two}", {}),
        ],
        "label_images": [("/v1/images", {"json": {"ids": [seen.image_id, name], "labels": {"note": "x"}}})],
        "delete": [(f"/v1/images/{name}", {})],
        "cases": [("/v1/cases?limit=200", {})],
        "save_case": [
            ("/v1/cases", {"json": {"title": "Hidden", "search": {"image_id": name}}}),
            (
                "/v1/cases",
                {
                    "json": {
                        "title": "Seen",
                        "search": {"image_id": seen.image_id},
                        "marks": judged,
                        "answers": [{"rank": 1, "image_id": name, "score": 1, "distance": 0}],
                    }
                },
            ),
            (f"/v1/cases?{two}", {"json": {"title": "Hidden", "search": {"image_id": seen.image_id}}}),
        ],
        "case": [(f"/v1/cases/{case_id}", {})],
        "change_case": [(f"/v1/cases/{case_id}", {"json": {"note": "x"}})],
        "case_picture": [(f"/v1/cases/{case_id}/picture", {})],
        "export_case": [(f"/v1/cases/{case_id}/export?label_keys=site&label_keys=marker", {})],
        "delete_case": [(f"/v1/cases/{case_id}", {})],
        "cohorts": [("/v1/cohorts?limit=200", {})],
        "begin_cohort": [
            ("/v1/cohorts", {"json": {"title": "Hidden", "relevant": [name]}}),
            ("/v1/cohorts", {"json": {"title": "Seen", "relevant": [seen.image_id], "irrelevant": [name]}}),
            (f"/v1/cohorts?{two}", {"json": {"title": "Hidden", "relevant": [seen.image_id]}}),
        ],
        "cohort": [(f"/v1/cohorts/{each}", {}) for each in cohorts],
        "change_cohort": [(f"/v1/cohorts/{each}", {"json": {"note": "x"}}) for each in cohorts],
        "next_cohort_batch": [(f"/v1/cohorts/{each}/batch?count=100", {}) for each in cohorts],
        "judge_cohort": [
            (
                f"/v1/cohorts/{each}/judgements",
                {"json": {"judgements": [{"image_id": name, "relevant": True}]}},
            )
            for each in cohorts
        ],
        "undo_cohort": [(f"/v1/cohorts/{each}/undo", {}) for each in cohorts],
        "cohort_estimate": [(f"/v1/cohorts/{each}/estimate", {}) for each in cohorts],
        "export_cohort": [
            (f"/v1/cohorts/{each}/export?format={kind}", {})
            for each in cohorts
            for kind in ("csv", "dicom", "monai", "coco", "label-studio")
        ],
        "delete_cohort": [(f"/v1/cohorts/{each}", {}) for each in cohorts],
        "audit": [("/v1/audit", {}), (f"/v1/audit?{two}", {})],
        "start_audit": [
            ("/v1/audit", {"json": {}}),
            ("/v1/audit", {"json": {"label": f"key-{HIDDEN}"}}),
            ("/v1/audit", {"json": {"collection": ward.other.name}}),
        ],
        "quarantine": [("/v1/quarantine", {}), (f"/v1/quarantine?{two}", {})],
        "quarantined_thumbnail": [
            (f"/v1/quarantine/{each}/thumbnail", {}) for each in (QUARANTINED.content_hash, name)
        ],
        "release": [(f"/v1/quarantine/{QUARANTINED.content_hash}/release", {})],
        "refuse": [(f"/v1/quarantine/{QUARANTINED.content_hash}", {})],
        "federation_profile": [("/v1/federation/profile", {}), (f"/v1/federation/profile?{two}", {})],
        "federation_search": [
            ("/v1/federation/search", {"json": question}),
            ("/v1/federation/search", {"json": question | {"where": [f"site={HIDDEN}"]}}),
            ("/v1/federation/search", {"json": question | {"where": [f"site!={VISIBLE}"]}}),
            ("/v1/federation/search", {"json": question | {"where": [f"key-{HIDDEN}?"]}}),
            (f"/v1/federation/search?{two}", {"json": question}),
        ],
        "delete_images": [("/v1/images/delete", {"json": {"ids": [name]}})],
        "export_images": [
            ("/v1/images/export", {"json": {}}),
            ("/v1/images/export", {"json": {"ids": [name]}}),
            ("/v1/images/export", {"json": {"where": [f"site={HIDDEN}"]}}),
            (f"/v1/images/export?{two}", {"json": {}}),
        ],
        "add": [("/v1/images", upload)],
        "store_instances": [("/dicomweb/studies", upload)],
        "store_study_instances": [(f"/dicomweb/{study}", upload)],
        "collections": [("/v1/collections", {})],
        "rerankers": [("/v1/rerankers", {})],
        "collection": [("/v1/collection", {}), (f"/v1/collection?{two}", {})],
        "profile": [("/v1/collection/profile", {}), (f"/v1/collection/profile?{two}", {})],
        "statistics": [("/v1/collection/statistics", {}), (f"/v1/collection/statistics?{two}", {})],
        "tokens": [("/v1/admin/tokens", {})],
        "create_token": [("/v1/admin/tokens", {"json": {"scopes": ["search"]}})],
        "revoke_token": [(f"/v1/admin/tokens/{UNKNOWN}/revoke", {})],
        "collection_states": [("/v1/admin/collections", {})],
        "request_history": [("/v1/admin/requests", {})],
        "service_health": [("/v1/admin/health", {})],
        "settings": [("/v1/admin/settings", {})],
        "history": [("/v1/collection/history", {}), (f"/v1/collection/history?{two}", {})],
        "jobs": [("/v1/jobs", {})],
        "job": [(f"/v1/jobs/{name}", {})],
        "index": [("/v1/jobs", {"json": {"folder": "/", "collection": ward.other.name}})],
        "cancel": [(f"/v1/jobs/{name}/cancel", {})],
        "retry": [(f"/v1/jobs/{name}/retry", {})],
        "erase_patient": [(f"/v1/patients/{key}", {}), (f"/v1/patients/{key}?{two}", {})],
        "similar": [
            (f"/v1/similar?study={image.study}&series={image.series}&instance={image.instance}", {}),
            (f"/v1/similar?study={image.study}&level=study&limit=1000", {}),
            (f"/v1/similar?study={seen.study}&exclude=instance&limit=1000", {}),
            (f"/v1/similar?study={seen.study}&level=study&limit=1000&where=site={HIDDEN}", {}),
            (f"/v1/similar?study={seen.study}&{two}", {}),
        ],
        "priors": [
            (f"/v1/images/{name}/priors?limit=100&images=20", {}),
            (f"/v1/images/{seen.image_id}/priors?limit=100&images=20&order=time", {}),
            (f"/v1/images/{seen.image_id}/priors?where=site={HIDDEN}", {}),
            (f"/v1/images/{seen.image_id}/priors?{two}", {}),
        ],
        "priors_of_study": [
            (f"/dicomweb/{study}/priors?limit=100", {}),
            (f"/dicomweb/studies/{seen.study}/priors?limit=100", {}),
            (f"/dicomweb/studies/{seen.study}/priors?{two}", {}),
        ],
        "similar_to_instance": [(f"/dicomweb/{uids}/similar?{everything}", {})],
        "similar_to_series": [(f"/dicomweb/{series}/similar?{everything}", {})],
        "similar_to_study": [
            (f"/dicomweb/{study}/similar?{everything}", {}),
            (f"/dicomweb/studies/{seen.study}/similar?{everything}", {}),
            (f"/dicomweb/studies/{seen.study}/similar?level=study&limit=1000&exclude=instance", {}),
        ],
    }


def _shared_case(ward: Ward, image: Record, seen: Record) -> str:
    """Return the id of a new case that others share: `image` is among its results."""
    case = {
        "title": "Shared",
        "shared": True,
        "search": {"image_id": seen.image_id},
        "answers": [{"rank": 1, "image_id": image.image_id, "score": 1, "distance": 0}],
    }
    saved = ward.client(Scope.search).post("/v1/cases", json=case)
    assert saved.status_code == 201, saved.text
    return str(saved.json["id"])


def shared_cohorts(ward: Ward, image: Record, seen: Record, owner: FlaskClient) -> list[str]:
    """Return the ids of a cohort with a hidden image, shared by someone who sees all, and of a limited caller's.

    Parameters
    ----------
    ward : Ward
        The service.
    image, seen : Record
        A hidden and a visible image.
    owner : FlaskClient
        The limited caller.
    """
    made = []
    for client, relevant in (
        (ward.client(Scope.search), [image.image_id, seen.image_id]),
        (owner, [seen.image_id]),
    ):
        begun = client.post("/v1/cohorts", json={"title": "Shared", "shared": True, "relevant": relevant})
        assert begun.status_code == 201, begun.text
        made.append(str(begun.json["id"]))
    return made
