"""Other studies of a patient: by view and likeness, with the days between them."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from pydicom import Dataset

from cbir import open as open_collection
from cbir import settings
from cbir.errors import InvalidInput, NotFound
from cbir.images import Limits
from cbir.ingest.description import DescribeTask
from cbir.search import Searcher
from cbir.search.prior_studies import PriorRequest, find_priors
from cbir.store import Collection
from cbir.store.records.filter_conditions import DicomScope
from indexer.describe_instance import InstanceTask, describe_instance
from indexer.index_job import index_images
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.client import Client
from tests.cbir.images.synthetic_dicom import dicom_set, written
from tests.service.conftest import cbir, problem, serving

VIEWER = "https://viewer.example.org/viewer?StudyInstanceUIDs={study}&initialSeriesInstanceUID={series}"
# Study, patient, date, view, and the seed of the pixels, which of one seed are alike.
STUDIES = (
    ("1.1", "A", "20240110", "PA", 1),
    ("1.2", "A", "20230110", "PA", 2),
    ("1.3", "A", "20240301", "LL", 1),
    ("1.4", "A", "20231231", "PA", 1),
    ("1.5", "A", "", "", 3),
    ("2.1", "B", "20240110", "PA", 1),
    ("3.1", "", "20240110", "PA", 1),
)


def instance(study: str, number: int, patient: str, day: str, view: str, seed: int) -> Dataset:
    """One radiograph; those of a seed differ by a little noise."""
    pattern = np.random.default_rng(seed).integers(0, 200, (6, 6)).repeat(12, 0).repeat(12, 1)
    noise = np.random.default_rng([number, *map(int, study.split("."))]).integers(0, 8, pattern.shape)
    return dicom_set(
        (pattern + noise).astype(np.uint16),
        StudyInstanceUID=study,
        SeriesInstanceUID=f"{study}.9",
        SOPInstanceUID=f"{study}.9.{number}",
        PatientID=patient,
        StudyDate=day,
        ViewPosition=view,
        Modality="DX",
        BodyPartExamined="CHEST",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with two images of each study, and a picture without a header."""
    base = tmp_path_factory.mktemp("priors")
    for study, *rest in STUDIES:
        for number in (1, 2):
            file = base / "files" / f"{study}-{number}.dcm"
            file.parent.mkdir(exist_ok=True)
            dataset = instance(study, number, *rest)
            dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
            file.write_bytes(written(dataset))
    cbir("index", base / "files", "--collection", base / "c", "--profile", "huang2012", "--jobs", "1")
    return base / "c"


@pytest.fixture(scope="module")
def client(folder: Path) -> FlaskClient:
    return create_app(folder, settings.load(viewer_link=VIEWER)).test_client()


@pytest.fixture(scope="module")
def ids(folder: Path) -> dict[str, str]:
    """Id of the first image of each study."""
    with Collection(folder) as collection:
        records = [record for _, record in collection.iterate()]
    return {record.study: record.image_id for record in records if record.instance.endswith(".9.1")}


def priors(client: FlaskClient, image_id: str, **params: Any) -> Any:
    answer = client.get(f"/v1/images/{image_id}/priors", query_string=params)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_by_view_then_likeness_with_days(client: FlaskClient, ids: dict[str, str]) -> None:
    answer = priors(client, ids["1.1"])
    facts = [(each["study"], each["days_before"], each["same_view"]) for each in answer["studies"]]
    assert facts[0] == ("1.4", 10, True)
    assert set(facts[1:3]) == {("1.2", 365, True), ("1.5", None, None)}
    assert facts[3] == ("1.3", -51, False)  # of another view, though more like
    assert (answer["image_id"], answer["study"], answer["total"]) == (ids["1.1"], "1.1", 4)
    assert answer["reason"] is None
    for rank, study in enumerate(answer["studies"], 1):
        assert (study["rank"], study["count"], len(study["images"])) == (rank, 2, 2)
        assert study["likeness"] == study["images"][0]["likeness"] >= study["images"][1]["likeness"]
        assert {image["query"] for image in study["images"]} == {ids["1.1"]}
        assert {image["dicom"]["study"] for image in study["images"]} == {study["study"]}
        assert study["page"] == f"/?image={study['images'][0]['image_id']}"
    assert "2024" not in str(answer).replace("1.2024", "")


def test_no_days_are_kept_if_the_setting_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By none of the ways into a collection: files that are indexed, sent, or received from an archive."""
    files = folder.parent / "files"
    loaded = settings.load(study_days=False)
    monkeypatch.setenv("CBIR_STUDY_DAYS", "false")
    index_images([files / "1.1-1.dcm"], tmp_path, profile="huang2012", jobs=1)
    client = create_app(tmp_path, loaded).test_client()
    sent = client.post("/v1/images", data={"image": (files / "1.2-1.dcm").open("rb"), "labels": "{}"})
    assert sent.status_code == 201
    with Collection(tmp_path) as collection:
        task = DescribeTask.of_collection(collection, loaded, Limits(), 60)
        received = describe_instance((files / "1.3-1.dcm").read_bytes(), InstanceTask(task))
        assert received.file is not None
        assert [record.study_day for record in received.file.records] == [None]
        assert [(record.study, record.study_day) for _, record in collection.iterate()] == [
            ("1.1", None),
            ("1.2", None),
        ]
        assert priors(client, next(collection.iterate())[1].image_id)["studies"][0]["days_before"] is None


def test_nearest_in_time_first(client: FlaskClient, ids: dict[str, str]) -> None:
    answer = priors(client, ids["1.2"], order="time", images=1, limit=3)
    assert [each["study"] for each in answer["studies"]] == ["1.4", "1.1", "1.5"]
    assert [each["days_before"] for each in answer["studies"]] == [-355, -365, None]
    assert [len(each["images"]) for each in answer["studies"]] == [1, 1, 1]
    assert answer["total"] == 4


def test_conditions(client: FlaskClient, ids: dict[str, str]) -> None:
    assert [each["study"] for each in priors(client, ids["1.1"], where="view_position=LL")["studies"]] == [
        "1.3"
    ]
    none = priors(client, ids["1.1"], where="modality!=DX")
    assert none["total"] == 0
    assert none["reason"].endswith("that meets the conditions")
    address = f"/v1/images/{ids['1.1']}/priors"
    for query, words in (
        ("where=nonsense=1", "nonsense"),
        ("where=!study_day?", "study_day is reserved"),
        ("order=age", "order"),
        ("limit=0", "limit"),
        ("images=21", "images"),
    ):
        assert words in problem(client.get(f"{address}?{query}"), 422)
    problem(client.get(f"/v1/images/{'0' * 32}/priors"), 404)


def test_links_open_both_studies(folder: Path, client: FlaskClient, ids: dict[str, str]) -> None:
    both = "https://viewer.example.org/viewer?StudyInstanceUIDs=1.1,1.4&hangingProtocolId=@ohif/hpCompare"
    assert priors(client, ids["1.1"])["studies"][0]["compare"] == both
    other = settings.load(compare_link="https://v/?a={study}&b={prior}", viewer_link="https://v/?s={study}")
    answer = priors(create_app(folder, other).test_client(), ids["1.1"])
    assert answer["studies"][0]["compare"] == "https://v/?a=1.1&b=1.4"
    none = settings.load(viewer_link="https://v/?s={study}")
    answer = priors(create_app(folder, none).test_client(), ids["1.1"])
    assert {each["compare"] for each in answer["studies"]} == {None}
    for wrong in ("https://v/?a={study}", "https://v/{prior}", "https://v/?a={study}&b={prior}&c={series}"):
        with pytest.raises(InvalidInput, match="compare_link"):
            settings.load(compare_link=wrong)


def test_without_priors_the_answer_says_why(client: FlaskClient, ids: dict[str, str]) -> None:
    for study, words in (("2.1", "no other study"), ("3.1", "is not known")):
        answer = priors(client, ids[study])
        assert (answer["studies"], answer["total"]) == ([], 0)
        assert words in answer["reason"]
        by_study = client.get(f"/dicomweb/studies/{study}/priors")
        assert by_study.status_code == 204
        assert words in by_study.headers["Warning"]


def test_of_a_study_as_dicom_json(client: FlaskClient) -> None:
    answer = client.get("/dicomweb/studies/1.1/priors")
    assert answer.mimetype == "application/dicom+json"
    datasets = [Dataset.from_json(each) for each in answer.json]
    assert datasets[0].StudyInstanceUID == "1.4"
    assert {each.StudyInstanceUID for each in datasets} == {"1.2", "1.3", "1.4", "1.5"}
    first = datasets[0].private_block(0x0077, "CBIR SIMILARITY")
    assert (first[0x02].value, first[0x16].value, first[0x18].value) == (1, 10, "YES")
    assert first[0x17].value.endswith("StudyInstanceUIDs=1.1,1.4&hangingProtocolId=@ohif/hpCompare")
    assert datasets[0].NumberOfStudyRelatedInstances == 2
    assert not datasets[0].StudyDate
    assert all(list(each) == sorted(each) for each in answer.json)
    plain = client.get("/dicomweb/studies/1.1/priors?limit=1", headers={"Accept": "application/json"})
    assert (len(plain.json), plain.mimetype) == (1, "application/json")
    problem(client.get("/dicomweb/studies/1.1/priors", headers={"Accept": "text/html"}), 406)
    assert "study 9.9" in problem(client.get("/dicomweb/studies/9.9/priors"), 404)
    problem(client.get("/dicomweb/studies/1.x/priors"), 400)
    problem(client.get("/dicomweb/studies/1.1/priors?limit=x"), 400)


def test_limited_callers_see_their_images_only(folder: Path, ids: dict[str, str], tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state")
    app = create_app(folder, settings.load(require_tokens=True, state_folder=tmp_path / "state"))
    caller = app.test_client()
    text = tokens.create([Scope.search], where=["view_position=PA"])[1]
    caller.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    answer = priors(caller, ids["1.1"])
    assert [each["study"] for each in answer["studies"]] == ["1.4", "1.2"]
    assert answer["total"] == 2
    assert ids["1.3"] not in str(answer)
    problem(caller.get(f"/v1/images/{ids['1.3']}/priors"), 404)
    problem(caller.get("/dicomweb/studies/1.3/priors"), 404)
    lines = (tmp_path / "state" / "audit.jsonl").read_text()
    assert ids["1.4"] in lines


def test_likeness_against_distances_written_out(folder: Path, ids: dict[str, str]) -> None:
    """1 - d^2 / (|a|^2 + |b|^2) of the vectors that searches compare, for every image of the query's study."""
    with Collection(folder) as collection:
        searcher = Searcher(collection, settings.load())
        found = find_priors(searcher, DicomScope("1.1"), PriorRequest(images=20))
        view = collection.view()
        vectors = {
            record.image_id: view.gallery.vectors(view.rows_of(np.array([number])))[0].astype(float)
            for number, record in collection.iterate()
        }
    assert len(found.queries) == 2
    for image in (image for study in found.studies for image in study.images):
        a = vectors[image.record.image_id]
        alike = {
            query.image_id: 2
            * a
            @ vectors[query.image_id]
            / (a @ a + vectors[query.image_id] @ vectors[query.image_id])
            for query in found.queries
        }
        assert image.likeness == pytest.approx(max(alike.values()), abs=1e-5)
        assert alike[image.query.image_id] == max(alike.values())
        assert image.distance == pytest.approx(np.linalg.norm(a - vectors[image.query.image_id]), rel=1e-4)


def test_copies_of_the_query_and_images_without_studies(tmp_path: Path, folder: Path) -> None:
    """Without a study UID, images of one day are together, and others by themselves."""
    with Collection(folder) as source, Collection.create(tmp_path / "c", source.profile) as collection:
        entries = []
        for place, (_, record) in enumerate(source.iterate()):
            day = {0: 9, 1: 5, 2: 5}.get(place)
            new = replace(record, study="", series="", instance="", patient_key="p", study_day=day, labels={})
            entries.append((new, source.vector(record.image_id)))
        copy = replace(entries[0][0], source="elsewhere")
        with collection.writer() as writer:
            writer.add([*entries, (copy, entries[0][1])], duplicates=True)
            writer.finish()
        searcher = Searcher(collection, settings.load())
        found = find_priors(searcher, entries[0][0].content_hash, PriorRequest(limit=100))
        assert found.total == len(found.studies) == len(entries) - 2
        assert sorted(study.count for study in found.studies)[-2:] == [1, 2]
        together = next(study for study in found.studies if study.count == 2)
        assert (together.study, together.days_before) == ("", 4)
        assert {study.best.same_view for study in found.studies} == {None}
        with pytest.raises(NotFound):
            find_priors(searcher, DicomScope("1.1"), PriorRequest())


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[str]:
    with serving(folder) as served:
        yield served.address


def test_in_python(folder: Path, ids: dict[str, str]) -> None:
    with open_collection(folder) as collection:
        assert collection.priors(ids["1.1"], limit=1).studies[0].study == "1.4"
        with pytest.raises(InvalidInput, match="order: 'age' is not one of likeness, time"):
            collection.priors(ids["1.1"], order="age")


@pytest.mark.slow
def test_the_client(running: str, ids: dict[str, str]) -> None:
    with Client(running) as client:
        answer = client.priors(ids["1.1"], order="time", where="view_position=PA")
        assert [(study.study, study.days_before) for study in answer.studies] == [("1.4", 10), ("1.2", 365)]
        assert len(client.priors_of_study("1.1")) == 4
        assert client.priors_of_study("2.1") == []


def test_in_a_frame_of_the_viewer(folder: Path, client: FlaskClient) -> None:
    page = client.get("/similar?study=1.1").text
    links = re.findall(r'class="prior" href="([^"]*)" target="_blank"', page)
    assert [unescape(link).partition("=")[2].partition("&")[0] for link in links][:1] == ["1.1,1.4"]
    assert len(links) == 4
    for words in ("10 days earlier", "365 days earlier", "51 days later", "Time unknown"):
        assert words in page
    assert "10 Tage" in client.get("/similar?study=1.1", headers={"Accept-Language": "de"}).text
    assert "Other studies" not in client.get("/similar?study=1.1&offset=1").text
    assert "Other studies" not in client.get("/similar?study=2.1").text
    alone = create_app(folder, settings.load()).test_client().get("/similar?study=1.1").text
    assert re.search(r'class="prior" href="/\?image=[0-9a-f]{32}"', alone)
