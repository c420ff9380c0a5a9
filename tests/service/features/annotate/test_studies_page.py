"""The page of all studies, and annotation studies in the service: who may open them, and where answers go."""

import os
import shutil
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.system.access_rights import Scope
from service.access.security import check_startup
from service.access.token_stores import TokenStore
from service.app import create_app
from service.features.annotate import study_plan
from service.features.annotate.active.judgement_journal import PairJudgement, read_journal
from service.features.annotate.annotation_pages import create_annotation_app
from service.features.annotate.annotation_studies import EXTENSION
from service.features.annotate.serve_command import serve_study
from service.features.annotate.study import open_study
from tests.service.conftest import copy_folder, problem, serving
from tests.service.test_pages import facts_of

BROWSER = {"Accept": "text/html"}
Client = Callable[..., FlaskClient]


@pytest.fixture
def folder(writable: Path, tmp_path: Path) -> Path:
    """A folder of two studies, over two collections."""
    studies = tmp_path / "studies"
    for name, collection in (("knees", writable.name), ("lungs", "other")):
        study_plan.save_plan(studies / name, {"question": f"Worse {name}?", "collection": collection})
    return studies


@pytest.fixture
def app(writable: Path, folder: Path, tmp_path: Path) -> Iterator[Flask]:
    state = tmp_path / "state"
    paths = [writable, copy_folder(writable, tmp_path / "other")]
    made = create_app(
        paths, settings.load(require_tokens=True, state_folder=state, annotation_studies=folder)
    )
    yield made
    made.extensions[EXTENSION].close()


@pytest.fixture
def client(app: Flask, tmp_path: Path) -> Client:
    """Makes clients with scopes, and limits to collections and images."""

    def made(*scopes: Scope, **limits: Any) -> FlaskClient:
        _, text = TokenStore(tmp_path / "state").create(list(scopes), **limits)
        client = app.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
        return client

    return made


def judge(client: FlaskClient, study: str | None = None) -> dict[str, str]:
    """Answer the next pair of a study."""
    query = {"study": study} if study else {}
    pair = client.get("/annotate/pairs", query_string=query | {"count": 1}).json["pairs"][0]
    body = {"name": str(uuid.uuid4()), "seconds": 1, "answer": "first", **pair}
    sent = client.post("/annotate/judgements", query_string=query, json=body)
    assert sent.status_code == 200, sent.text
    found: dict[str, str] = pair
    return found


def listed(client: FlaskClient) -> set[str]:
    page = client.get("/studies")
    assert page.status_code == 200
    return {name for name in ("knees", "lungs") if f'"/annotate?study={name}"' in page.text}


def test_people_see_the_studies_that_they_may_open(client: Client, writable: Path) -> None:
    assert listed(client(Scope.annotate)) == {"knees", "lungs"}
    assert listed(client(Scope.annotate, collections=[writable.name])) == {"knees"}
    assert listed(client(Scope.annotate, where=["label=a"])) == set()
    assert listed(client(Scope.search, Scope.ingest)) == set()


def test_what_is_not_listed_is_not_there(client: Client, writable: Path) -> None:
    limited = client(Scope.annotate, collections=[writable.name])
    missing = problem(limited.get("/annotate/pairs?study=none"), 404)
    for path in ("/annotate/pairs", "/annotate/judgements", "/annotate/export/images.csv", "/annotate"):
        assert problem(limited.get(f"{path}?study=lungs"), 404).replace("lungs", "none") == missing
    assert limited.get("/annotate?study=lungs", headers=BROWSER).mimetype == "text/html"
    assert limited.get("/annotate?study=../studies/knees").status_code == 404
    problem(client(Scope.search).get("/annotate?study=knees"), 403)
    problem(client(Scope.annotate, where=["label=a"]).get("/annotate/pairs?study=knees"), 404)


def test_answers_are_those_of_their_study(client: Client, folder: Path) -> None:
    annotator = client(Scope.annotate)
    pairs = {name: judge(annotator, name) for name in ("knees", "lungs")}
    for name, pair in pairs.items():
        (entry,) = read_journal(folder / name / "judgements.jsonl")
        assert isinstance(entry, PairJudgement)
        assert (entry.first, entry.second) == (pair["first"], pair["second"])
    said = problem(annotator.get("/annotate/pairs"), 422)
    assert "/studies" in said


@pytest.mark.parametrize("query", ["", "?study=none"])
def test_a_page_keeps_an_answer_to_no_study(client: Client, query: str) -> None:
    """Pages of annotation, also those of earlier versions, keep an answer that is forbidden."""
    body = {"name": str(uuid.uuid4()), "undoes": str(uuid.uuid4())}
    problem(client(Scope.annotate).post(f"/annotate/undo{query}", json=body), 403)


def test_a_folder_that_is_away_for_a_while(client: Client, folder: Path) -> None:
    annotator, away = client(Scope.annotate), folder.with_name("away")
    folder.rename(away)
    body = {"name": str(uuid.uuid4()), "undoes": str(uuid.uuid4())}
    problem(annotator.post("/annotate/undo?study=knees", json=body), 503)
    away.rename(folder)
    judge(annotator, "knees")


def test_other_studies_are_listed_while_that_folder_is_away(client: Client, folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    for scope, told in ((Scope.annotate, True), (Scope.search, False)):
        page = client(scope).get("/studies")
        assert page.status_code == 200
        assert ("cannot be read at the moment" in page.text) is told
        assert str(folder) not in page.text


def test_a_study_in_the_place_of_another_gets_its_own_answers(
    client: Client, folder: Path, writable: Path
) -> None:
    """An operator restores a study from a backup, or makes a new one of the same name, while the service runs."""
    annotator = client(Scope.annotate)
    judge(annotator, "knees")
    earlier = facts_of(annotator.get("/annotate?study=knees").text)["id"]
    (folder / "knees").rename(folder.parent / "earlier")
    body = {"name": str(uuid.uuid4()), "undoes": str(uuid.uuid4())}
    problem(annotator.post("/annotate/undo?study=knees", json=body), 403)
    study_plan.save_plan(folder / "knees", {"question": "Worse?", "collection": writable.name})
    pair = judge(annotator, "knees")
    answer = {"name": str(uuid.uuid4()), "seconds": 1, "answer": "first", **pair}
    query = {"study": "knees", "study_id": earlier}
    assert "reload" in problem(annotator.post("/annotate/judgements", query_string=query, json=answer), 403)
    problem(annotator.get("/annotate/pairs", query_string=query), 403)
    for place in (folder / "knees", folder.parent / "earlier"):
        assert len(read_journal(place / "judgements.jsonl")) == 1


def test_an_answer_is_about_images_of_the_study(client: Client, folder: Path, writable: Path) -> None:
    """Otherwise an answer about any image of the collection would let its sender see the picture."""
    with Collection(writable) as opened:
        records = [record for _, record in opened.iterate()]
    value = records[0].labels["label"]
    others = [record.image_id for record in records if record.labels["label"] != value]
    study_plan.save_plan(folder / "knees", {"where": (f"label={value}",), "grades": (0.0, 1.0)})
    annotator = client(Scope.annotate)
    said = {"name": str(uuid.uuid4()), "seconds": 1}
    pair = said | {"answer": "first", "first": others[0], "second": records[0].image_id}
    assert others[0] in problem(annotator.post("/annotate/judgements?study=knees", json=pair), 422)
    grade = said | {"image": others[0], "grade": 1}
    problem(annotator.post("/annotate/grades?study=knees", json=grade), 422)
    assert annotator.get(f"/annotate/images/{others[0]}/picture?study=knees").status_code == 404


def test_a_page_skips_no_image_of_a_study_that_is_away(client: Client, folder: Path) -> None:
    """It skips what is answered with 404, the status of an image that is gone."""
    annotator = client(Scope.annotate)
    image = judge(annotator, "knees")["first"]
    problem(annotator.get(f"/annotate/images/{image}/picture"), 403)
    (folder / "knees").rename(folder.parent / "away")
    problem(annotator.get(f"/annotate/images/{image}/picture?study=knees"), 403)


def test_a_page_without_a_name_leads_to_the_list(client: Client) -> None:
    for path in ("/annotate", "/annotate/single", "/annotate/review"):
        assert client(Scope.annotate).get(path, headers=BROWSER).headers["Location"] == "/studies"


def test_no_message_names_a_study_that_the_caller_may_not_see(
    client: Client, folder: Path, writable: Path
) -> None:
    limited = client(Scope.annotate, collections=[writable.name])
    (folder / "knees" / study_plan.FILE).write_text("{")
    assert str(folder) not in problem(limited.get("/annotate/pairs?study=knees"), 404)
    (folder / "knees").rename(folder.parent / "knees")
    assert "lungs" not in problem(limited.get("/annotate/pairs"), 404)
    (folder / "lungs").rename(folder.parent / "lungs")
    assert "study here" in problem(limited.get("/annotate/pairs"), 404)


def test_a_study_that_cannot_be_opened(
    client: Client, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "knees" / "judgements.jsonl").write_text("damaged\n")
    assert str(folder) not in problem(client(Scope.annotate).get("/annotate/pairs?study=knees"), 503)
    assert "judgements.jsonl" in caplog.text


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are text there")
def test_a_folder_whose_name_is_no_text(client: Client, folder: Path) -> None:
    shutil.copytree(os.fsencode(folder / "knees"), os.fsencode(folder) + b"/\xff")
    assert listed(client(Scope.annotate)) == {"knees", "lungs"}


def test_a_single_study_needs_no_name(client: Client, folder: Path) -> None:
    (folder / "lungs").rename(folder.parent / "lungs")
    annotator = client(Scope.annotate)
    assert annotator.get("/annotate").status_code == 200
    judge(annotator)
    assert len(read_journal(folder / "knees" / "judgements.jsonl")) == 1


def test_a_picture_is_of_the_study(client: Client, folder: Path, writable: Path) -> None:
    with Collection(writable) as opened:
        records = [record for _, record in opened.iterate()]
    value = records[0].labels["label"]
    study_plan.save_plan(folder / "knees", {"where": (f"label={value}",)})
    annotator = client(Scope.annotate)
    for record in records:
        shown = annotator.get(f"/annotate/images/{record.image_id}/picture?study=knees")
        assert shown.status_code == (200 if record.labels["label"] == value else 404)


def test_the_menu_has_what_the_caller_may_open(client: Client) -> None:
    def links(*scopes: Scope) -> str:
        return client(*scopes).get("/studies").text.split("<main")[0]

    assert 'href="/browse' not in links(Scope.annotate)
    assert 'role="search"' not in links(Scope.annotate)
    assert 'href="/browse' in links(Scope.search)
    assert "/admin" in links(Scope.admin)


def test_a_study_is_open_in_one_process(
    client: Client, folder: Path, writable: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = open_study(writable, folder / "knees")
    annotator = client(Scope.annotate)
    problem(annotator.get("/annotate/pairs?study=knees"), 503)
    assert "another process" in caplog.text
    elsewhere.close()
    judge(annotator, "knees")


def test_a_study_of_an_earlier_version_and_a_damaged_one(client: Client, folder: Path) -> None:
    study_plan.save_plan(folder / "old", {})
    (folder / "lungs" / study_plan.FILE).write_text("{")
    annotator = client(Scope.annotate)
    assert listed(annotator) == {"knees"}
    judge(annotator, "old")


def test_the_setting_names_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="annotation_studies"):
        check_startup(settings.load(annotation_studies=tmp_path / "none"))


def test_a_plan_is_stored_for_the_service(
    writable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    study = tmp_path / "studies" / "made"
    serve_study(collection=writable, study_dir=study, question="Worse?", prepare=True)
    assert f"CBIR_ANNOTATION_STUDIES={study.parent}" in capsys.readouterr().out
    plan = study_plan.read_plan(study)
    assert (plan.question, plan.collection) == ("Worse?", writable.name)


def test_the_old_list_of_reader_studies_has_moved(client: Client) -> None:
    assert client(Scope.search).get("/study").headers["Location"] == "/studies"
    assert client(Scope.search).get("/study/none").status_code == 404


def test_alone_and_in_the_service_are_the_same_pages(writable: Path, folder: Path) -> None:
    active = settings.load(annotation_studies=folder)
    alone = create_annotation_app(writable, folder / "knees", active)
    page = alone.test_client().get("/annotate")
    alone.extensions[EXTENSION].close()
    within = create_app([writable], active)
    shown = within.test_client().get("/annotate?study=knees")
    within.extensions[EXTENSION].close()
    assert page.headers["Content-Security-Policy"] == shown.headers["Content-Security-Policy"]
    main = page.text[page.text.index("<main") :]
    assert main == shown.text[shown.text.index("<main") :].replace("?study=knees", "").replace(
        '"name": "knees"', '"name": null'
    )


def test_a_killed_service_has_lost_no_answer(writable: Path, folder: Path) -> None:
    pytest.importorskip("torch")
    names = []
    for _ in range(2):
        with serving(writable, CBIR_ANNOTATION_STUDIES=str(folder)) as running:
            address = f"{running.address}/annotate"
            who = {"study": "knees", "who": "Ada"}
            found = httpx.get(f"{address}/pairs", params=who, timeout=60).json()
            assert [each["name"] for each in found["history"]] == names
            for pair in found["pairs"][:3]:
                body = {"name": str(uuid.uuid4()), "who": "Ada", "seconds": 1, "answer": "first", **pair}
                sent = httpx.post(f"{address}/judgements", params={"study": "knees"}, json=body, timeout=60)
                assert sent.status_code == 200
                names.append(body["name"])
            running.process.send_signal(signal.SIGKILL)
            running.process.wait(timeout=60)
    assert [entry.name for entry in read_journal(folder / "knees" / "judgements.jsonl")] == names
