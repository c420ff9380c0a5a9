"""What is like an instance, a series or a study, in our own JSON and as QIDO-RS answers."""

import json
from pathlib import Path

import numpy as np
import pytest
from dicomweb_client.web import DICOMwebClient
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydicom import Dataset
from werkzeug.datastructures import MultiDict

from cbir import settings
from cbir.search.dicom_levels import Combination, Exclude, Level
from cbir.store import Collection
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.client import Client
from service.client.collection_messages import path_in_collection
from tests.indexer.receiving import file_of, slices
from tests.service.conftest import cbir, problem, serving
from tests.service.dicom_collection import SLICES, make

ARCHIVE = "https://pacs.example.org/dicom-web"
VIEWER = "https://viewer.example.org/view?StudyInstanceUIDs={study}&n={frame}"
BY_UID = {"archive_url": "http://10.0.0.1/dicom-web", "archive_public_url": ARCHIVE, "viewer_link": VIEWER}
SCORE = "00771001"


@pytest.fixture(scope="module")
def dicom_collection(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Dataset]]:
    return make(tmp_path_factory)


@pytest.fixture(scope="module")
def ct(dicom_collection: tuple[Path, list[Dataset]]) -> Dataset:
    return dicom_collection[1][2]


@pytest.fixture(scope="module")
def near(dicom_collection: tuple[Path, list[Dataset]]) -> FlaskClient:
    app: Flask = create_app(dicom_collection[0], settings.load(**BY_UID))
    return app.test_client()


def address(ct: Dataset, levels: int = 3) -> str:
    parts = ("studies", ct.StudyInstanceUID, "series", ct.SeriesInstanceUID, "instances", ct.SOPInstanceUID)
    return "/dicomweb/" + "/".join(parts[: 2 * levels]) + "/similar"


def value(dataset: dict, tag: str):
    return dataset[tag]["Value"][0]


@pytest.mark.slow
def test_a_dicomweb_client_reads_the_answers(
    dicom_collection: tuple[Path, list[Dataset]], ct: Dataset
) -> None:
    with serving(dicom_collection[0], CBIR_VIEWER_LINK=VIEWER, CBIR_ARCHIVE_URL=ARCHIVE) as running:
        base = running.address + path_in_collection("/dicomweb", dicom_collection[0].name)
        client = DICOMwebClient(base)
        everything = client._http_get_application_json(
            base + address(ct).removeprefix("/dicomweb"), {"limit": 5}, get_remaining=True
        )
        assert len(everything) == 20 + 2 * SLICES - 1
        with Client(running.address) as ours:
            uids = ct.StudyInstanceUID, ct.SeriesInstanceUID, ct.SOPInstanceUID
            assert ours.similar_to_instance(*uids, limit=100) == everything
            of_series = ours.similar_to_series(*uids[:2], level="series", limit=100, combine="sum")
            assert len(of_series) == ours.similar(*uids[:2], level="series", limit=1).total
            assert ours.similar_to_study(uids[0], offset=10**6) == []
    first = Dataset.from_json(everything[0])
    assert first.SOPClassUID == ct.SOPClassUID
    assert first.StudyInstanceUID == ct.StudyInstanceUID
    assert (first.Rows, first.Columns, first.Modality) == (48, 48, "CT")
    assert first.NumberOfSeriesRelatedInstances == first.NumberOfStudyRelatedInstances == SLICES
    assert first.ModalitiesInStudy == "CT"
    assert "PatientName" in first
    assert not first.PatientName
    assert not first.PatientID
    series = f"{ARCHIVE}/studies/{first.StudyInstanceUID}/series/{first.SeriesInstanceUID}"
    assert first.RetrieveURL == f"{series}/instances/{first.SOPInstanceUID}"
    block = first.private_block(0x0077, "CBIR SIMILARITY")
    assert block[2].value == 1
    assert block[8].value == f"{first.RetrieveURL}/rendered"
    assert block[9].value == VIEWER.format(study=first.StudyInstanceUID, frame=1)
    scores = [value(item, SCORE) for item in everything]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
@hypothesis_settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(Level), st.sampled_from(Combination), st.integers(1, 3), st.sampled_from([2, 7, 1000]))
def test_pages_make_the_whole_list(
    near: FlaskClient, ct: Dataset, level: Level, how: Combination, of: int, limit: int
) -> None:
    requested = {"level": level.value, "combine": how.value}
    full = near.get(address(ct, of), query_string=requested | {"limit": 1000})
    assert "Warning" not in full.headers
    pages, offset = [], 0
    while (
        answer := near.get(address(ct, of), query_string=requested | {"limit": limit, "offset": offset})
    ).data:
        assert answer.status_code == 200
        pages += answer.json
        offset += limit
        left = len(full.json) - len(pages)
        assert (f"There are {left} additional" in answer.headers.get("Warning", "")) == (left > 0)
    assert answer.status_code == 204
    assert pages == full.json
    assert [value(item, "00771002") for item in pages] == list(range(1, len(pages) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["max", "sum", "frequency"])
@pytest.mark.parametrize("level", [Level.series, Level.study])
def test_slices_are_combined(
    dicom_collection: tuple[Path, list[Dataset]],
    near: FlaskClient,
    ct: Dataset,
    level: Level,
    how: str,
) -> None:
    """A series, against distances from each of its slices to every image, written out."""
    depth = 5
    with Collection(dicom_collection[0]) as collection:
        view = collection.view()
        records = [(number, record) for number, record in collection.iterate() if record.instance]
        vectors = view.gallery.vectors(view.rows_of(np.array([number for number, _ in records])))
    others = [handle for handle, (_, record) in enumerate(records) if record.study != ct.StudyInstanceUID]
    scores: dict[str, list[float]] = {}
    for handle, (_, record) in enumerate(records):
        if record.series != ct.SeriesInstanceUID:
            continue
        distances = np.sqrt(((vectors[others] - vectors[handle]) ** 2).sum(axis=1))
        alike = 1 - (distances - distances.min()) / np.ptp(distances)
        for item in np.argsort(-alike)[:depth]:
            scores.setdefault(getattr(records[others[item]][1], level.value), []).append(float(alike[item]))
    combined = {"max": max, "sum": sum, "frequency": len}[how]
    plain = {uid: combined(of) for uid, of in scores.items()}
    requested = {
        "level": level.value,
        "combine": how,
        "depth": depth,
        "rerank": "none",
        "exclude": "study",
    }
    answer = near.get(address(ct, 2), query_string=requested | {"limit": 100}).json
    tag = {"series": "0020000E", "study": "0020000D"}[level.value]
    assert {value(item, tag): value(item, SCORE) for item in answer} == pytest.approx(plain, abs=1e-4)
    assert {value(item, tag): value(item, "00771003") for item in answer} == {
        u: len(of) for u, of in scores.items()
    }
    assert not any("00080018" in item for item in answer)
    assert all(("0020000E" in item) == (level is Level.series) for item in answer)


def test_what_is_left_out(near: FlaskClient, ct: Dataset) -> None:
    uids = {"study": ct.StudyInstanceUID, "series": ct.SeriesInstanceUID, "instance": ct.SOPInstanceUID}

    def left(exclude: Exclude, **more: str) -> int:
        answer = near.get(
            "/v1/similar", query_string=uids | {"exclude": exclude.value, "limit": 100} | more
        ).json
        assert answer["total"] == len(answer["results"])
        assert {item["best"]["dicom"] is None for item in answer["results"]} == {False}
        return answer["total"]

    everything = 20 + 2 * SLICES
    assert left(Exclude.instance) == everything - 1
    assert left(Exclude.series) == left(Exclude.study) == everything - SLICES
    assert left(Exclude.patient) == everything - 2 * SLICES  # the other series is of the same patient
    assert left(Exclude.instance, where="modality=CT") == 2 * SLICES - 1
    assert left(Exclude.instance, level="study", depth="1000") == left(
        Exclude.study, level="study", depth="1000"
    )


def test_our_own_json(near: FlaskClient, ct: Dataset) -> None:
    requested = {"study": ct.StudyInstanceUID, "level": "series", "combine": "sum", "limit": 2, "offset": 1}
    answer = near.get("/v1/similar", query_string=requested).json
    assert answer["query"] == {
        "study": ct.StudyInstanceUID,
        "series": None,
        "instance": None,
        "images": SLICES,
    }
    assert [item["rank"] for item in answer["results"]] == [2, 3]
    best = answer["results"][0]["best"]
    assert answer["results"][0]["series"] == best["dicom"]["series"]
    assert answer["results"][0]["instance"] is None
    for name, start in (("rendered", ARCHIVE), ("viewer", "https://viewer.example.org/view?")):
        assert best["links"][name].startswith(start)
    assert near.get(best["links"]["thumbnail"]).status_code == 200
    record = near.get(best["links"]["image"]).json
    assert record["links"] == best["links"]
    by_image = near.post("/v1/search", json={"image_id": best["image_id"], "k": 30}).json["results"]
    assert {bool(hit["dicom"]) == bool(hit["links"]["viewer"]) for hit in by_image} == {True}
    assert {bool(hit["dicom"]) for hit in by_image} == {True, False}


@pytest.mark.parametrize(
    ("included", "present"),
    [
        ("", set()),
        ("BodyPartExamined", {"00180015"}),
        ("00180015,PhotometricInterpretation", {"00180015", "00280004"}),
        ("BurnedInAnnotation&includefield=00180015", {"00180015", "00280301"}),
        ("PatientName,RequestAttributesSequence.ScheduledProcedureStepID,00400275.00400009", set()),
        ("all", {"00180015", "00200060", "00185101", "00280004", "00280301"}),
    ],
)
def test_further_attributes(near: FlaskClient, ct: Dataset, included: str, present: set[str]) -> None:
    plain = near.get(f"{address(ct)}?limit=1").json[0]
    requested = near.get(
        f"{address(ct)}?limit=1&includefield={included}" if included else f"{address(ct)}?limit=1"
    )
    assert requested.json[0].keys() - plain.keys() == present
    assert list(requested.json[0]) == sorted(requested.json[0])
    above = near.get(f"{address(ct)}?limit=1&level=study&includefield=all").json[0]
    assert not {"00180015", "00080018", "00280010"} & above.keys()


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ("?limit=0", 400, "limit"),
        ("?limit=x", 400, "limit"),
        ("?offset=-1", 400, "offset"),
        ("?level=patient", 400, "level"),
        ("?combine=mean", 400, "combine"),
        ("?includefield=Nonsense", 400, "'Nonsense' is not an attribute"),
        ("?rerank=nonsense", 400, "nonsense"),
        ("?where=nonsense", 400, "nonsense"),
        ("?fuzzymatching=true", 400, "fuzzymatching"),
        ("?collection=nowhere", 404, "nowhere"),
    ],
)
def test_what_cannot_be_asked(near: FlaskClient, ct: Dataset, change: str, status: int, words: str) -> None:
    assert words in problem(near.get(address(ct) + change), status)


def test_what_is_not_there(near: FlaskClient, ct: Dataset) -> None:
    assert "instance 1.2.3" in problem(near.get(address(ct).replace(ct.SOPInstanceUID, "1.2.3")), 404)
    assert "series 1.2.3" in problem(near.get(address(ct, 2).replace(ct.SeriesInstanceUID, "1.2.3")), 404)
    assert "study 1.2.3" in problem(near.get("/dicomweb/studies/1.2.3/similar"), 404)
    problem(near.get("/dicomweb/studies/1.2.x/similar"), 400)
    problem(near.get("/v1/similar"), 422)
    problem(near.get("/v1/similar?study=x"), 422)
    problem(near.get(f"/v1/similar?study={ct.StudyInstanceUID}&instance=1.2"), 422)


@pytest.mark.parametrize(
    ("accept", "values"),
    [
        ("application/dicom+json", "application/dicom+json"),
        ("application/dicom+json, application/json", "application/dicom+json"),
        ("application/json", "application/json"),
        ("*/*", "application/dicom+json"),
        ("", "application/dicom+json"),
        ('multipart/related; type="application/dicom+xml"', None),
        ("text/html", None),
    ],
)
def test_media_types(near: FlaskClient, ct: Dataset, accept: str, values: str | None) -> None:
    answer = near.get(address(ct), headers={"Accept": accept})
    if values is None:
        problem(answer, 406)
    else:
        assert (answer.status_code, answer.mimetype) == (200, values)


def test_nothing_of_the_patient_is_told(near: FlaskClient, ct: Dataset) -> None:
    for answer in (
        near.get(address(ct) + "?includefield=all"),
        near.get(f"/v1/similar?study={ct.StudyInstanceUID}"),
    ):
        for secret in (str(ct.PatientID), str(ct.PatientName), str(ct.StudyDate), "PHANTOM^"):
            assert secret not in answer.text


@pytest.mark.slow
def test_frames_are_of_one_instance(tmp_path: Path) -> None:
    many, *others = slices(4, 48, seed=5)
    many.SOPInstanceUID = many.file_meta.MediaStorageSOPInstanceUID = "1.2.3"
    many.NumberOfFrames = 3
    many.PixelData = b"".join(item.PixelData for item in slices(3, 48, seed=6))
    for number, item in enumerate((many, *others)):
        (tmp_path / f"{number}.dcm").write_bytes(file_of(item))
    cbir("index", tmp_path, "--collection", tmp_path / "collection", "--jobs", "1", "--profile", "huang2012")
    client = create_app(tmp_path / "collection", settings.load(**BY_UID)).test_client()
    from_frames = client.get(
        "/v1/similar",
        query_string={"study": many.StudyInstanceUID, "instance": "1.2.3", "series": many.SeriesInstanceUID},
    ).json
    assert from_frames["query"]["images"] == 3
    assert [item["found"] for item in from_frames["results"]] == [3, 3, 3]
    assert "1.2.3" not in {item["instance"] for item in from_frames["results"]}
    (answer,) = [item for item in client.get(address(others[0])).json if value(item, "00080018") == "1.2.3"]
    assert value(answer, "00771003") == 3
    assert value(answer, "00771006") in (1, 2, 3)
    assert value(answer, "00771008").endswith(f"/instances/1.2.3/frames/{value(answer, '00771006')}/rendered")
    assert value(answer, "00771009").endswith(f"n={value(answer, '00771006')}")


@pytest.mark.slow
def test_the_doors_are_those_of_a_search(
    dicom_collection: tuple[Path, list[Dataset]], ct: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(tmp_path / "state"))
    tokens = TokenStore(tmp_path / "state")
    token, other = (tokens.create([scope])[1] for scope in (Scope.search, Scope.ingest))
    app = create_app(dicom_collection[0], settings.load(require_tokens=True, threads=1, queue=0))
    client = app.test_client()
    pages = [address(ct, levels) for levels in (1, 2, 3)]
    pages += [f"{page}?study={ct.StudyInstanceUID}" for page in ("/v1/similar", "/similar")]
    for page in pages:
        assert client.get(page).status_code == 401
        problem(client.get(page, headers={"Authorization": f"Bearer {other}"}), 403)
        mine = {"Authorization": f"Bearer {token}"}
        assert client.get(page, headers=mine).status_code == 200
        with app.extensions["cbir"].concurrency.admit():
            assert client.get(page, headers=mine).status_code == 429
    lines = [json.loads(line) for line in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
    done = [line for line in lines if line["status"] == 200]
    assert [line["action"] for line in done] == ["search"] * len(pages)
    assert all(line["images"] for line in done)
    assert ct.StudyInstanceUID not in str(lines)


def test_long_searches_are_cancelled(dicom_collection: tuple[Path, list[Dataset]], ct: Dataset) -> None:
    client = create_app(dicom_collection[0], settings.load(query_seconds=1e-6)).test_client()
    for page in (address(ct), f"/v1/similar?study={ct.StudyInstanceUID}"):
        assert "query_seconds" in problem(client.get(page), 504)
    shown = client.get(f"/similar?study={ct.StudyInstanceUID}")
    assert shown.status_code == 504
    assert "query_seconds" in shown.text


def test_parameters_of_the_re_ranker(near: FlaskClient, ct: Dataset) -> None:
    sent = [("rerank", "eprf"), ("parameters", "P=3"), ("parameters", "C=0.5")]
    query = [("study", ct.StudyInstanceUID), *sent]
    used = near.get("/v1/similar", query_string=MultiDict(query)).json["rerank"]
    assert (used["method"], used["parameters"]["P"], used["parameters"]["C"]) == ("eprf", 3, 0.5)
    wrong = ("parameters", "P=0")
    refused = "P must be a whole number from 1 to 100, not '0'"
    answer = near.get("/v1/similar", query_string=MultiDict([query[0], sent[0], wrong]))
    assert refused in problem(answer, 422)
    assert refused in problem(near.get(address(ct), query_string=MultiDict([sent[0], wrong])), 400)
    assert near.get(address(ct), query_string=MultiDict(sent)).status_code == 200
    by_slices = {"study": ct.StudyInstanceUID, "level": "series", "combine": "maxsim", "parameters": "P=3"}
    assert "parameters: maxsim does not re-rank" in problem(
        near.get("/v1/similar", query_string=by_slices), 422
    )
