"""Reader studies: made by a command, read blinded on the page, and reported."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select

from cbir import settings
from cbir.store import Collection
from service.access.token_stores import Scope
from service.app import create_app
from service.features.annotate.reader_study import tables as reader_studies
from service.features.annotate.reader_study.routes import SidedAnswer, from_sides, reader_items
from service.features.annotate.reader_study.tables import (
    ReaderAnswer,
    ReaderStudy,
    StudyItem,
    erase_from_studies,
)
from service.state import audit_lines
from service.state.database import StateDatabase, open_state
from tests.service.conftest import ONLY_FILE, command, problem, refusal, stored_tokens

STUDY = ReaderStudy("first", "collection", "none", "eprf", 3, 3, 2, True, 5, b"0123456789abcdef")

pytestmark = pytest.mark.usefixtures("each_database")


def database() -> StateDatabase:
    return open_state(settings.load())


@pytest.fixture
def items(ids: list[str]) -> list[StudyItem]:
    return [StudyItem(number, ids[number], tuple(ids[4:7]), tuple(ids[6:9])) for number in (1, 2, 3)]


@pytest.fixture
def study(indexed: Path, items: list[StudyItem]) -> ReaderStudy:
    """A study of two readers that judge images too."""
    made = ReaderStudy(**vars(STUDY) | {"collection": indexed.name})
    reader_studies.add_study(database(), made, items)
    return made


def begin(client: FlaskClient, reader: int | None = 1, name: str = "first") -> dict[str, Any]:
    done = client.post(f"/study/{name}/items", json={} if reader is None else {"reader": reader})
    assert done.status_code == 200, done.text
    body: dict[str, Any] = done.json
    return body


def reply(item: dict[str, Any], better: str, **more: Any) -> dict[str, Any]:
    """Return the message of an answer to an item."""
    return {
        "item": item["item"],
        "useful_left": 2,
        "useful_right": 4,
        "better": better,
        "seconds": 3.5,
    } | more


def test_an_answer_by_sides_is_stored_by_methods(
    client: FlaskClient, study: ReaderStudy, items: list[StudyItem]
) -> None:
    sides = set()
    for reader in (1, 2):
        for shown in begin(client, reader)["items"]:
            item = next(each for each in items if each.item == shown["item"])
            a_left = shown["left"] == list(item.a)
            assert shown["right"] == list(item.b if a_left else item.a)
            sides.add(a_left)
            body = reply(shown, "right", reader=reader)
            assert client.post("/study/first/answers", json=body).status_code == 204
            stored = next(
                each
                for each in reader_studies.read_answers(database(), "first", reader)
                if each.item == item.item
            )
            assert stored.a_left == a_left
            assert stored.preference == (1 if a_left else -1)
            assert (stored.useful_a, stored.useful_b) == ((2, 4) if a_left else (4, 2))
    assert sides == {True, False}


@pytest.mark.parametrize("better", ["left", "equal", "right"])
def test_an_answer_comes_back_as_it_was_given(items: list[StudyItem], better: str) -> None:
    for reader in (1, 2):
        for shown in reader_items(STUDY, reader, items, []).items:
            sided = SidedAnswer.model_validate(
                reply({"item": shown.item}, better, relevant={shown.left[0]: True}, note="n")
            )
            stored = from_sides(STUDY, reader, items, sided)
            assert stored is not None
            again = reader_items(STUDY, reader, items, [stored]).items
            assert next(each.answer for each in again if each.item == shown.item) == sided


def test_readers_see_no_method_and_nothing_of_others(client: FlaskClient, study: ReaderStudy) -> None:
    (first, *_) = begin(client, 1)["items"]
    client.post("/study/first/answers", json=reply(first, "left", reader=1, note="of the first reader"))
    for address in ("/studies", "/study/first"):
        page = client.get(address).text
        assert "eprf" not in page
    body = client.post("/study/first/items", json={"reader": 2}).text
    assert "first reader" not in body
    assert "eprf" not in body
    assert [item["answer"] for item in json.loads(body)["items"]] == [None] * 3
    mine = {item["item"]: item["answer"] for item in begin(client, 1)["items"]}
    assert mine[first["item"]]["note"] == "of the first reader"
    assert sum(answer is not None for answer in mine.values()) == 1


def test_an_answer_replaces_the_earlier_one(
    client: FlaskClient, study: ReaderStudy, items: list[StudyItem]
) -> None:
    (first, *_) = begin(client)["items"]
    relevant = {first["left"][0]: True, first["right"][-1]: False, "unknown": True}
    client.post("/study/first/answers", json=reply(first, "left", reader=1))
    client.post("/study/first/answers", json=reply(first, "equal", reader=1, relevant=relevant))
    (stored,) = reader_studies.read_answers(database(), "first")
    assert stored.preference == 0
    assert stored.relevant == {first["left"][0]: True, first["right"][-1]: False}


@pytest.mark.parametrize(
    "wrong",
    [{"useful_left": 6}, {"useful_left": 0}, {"better": "a"}, {"item": 0}, {"note": "x" * 2001}, {"method": "none"},
     {"seconds": -1}, {"reader": 3}, {"reader": None}],
)  # fmt: skip
def test_other_answers_are_refused(client: FlaskClient, study: ReaderStudy, wrong: dict[str, Any]) -> None:
    problem(client.post("/study/first/answers", json=reply({"item": 1}, "left", reader=1) | wrong), 422)
    assert reader_studies.read_answers(database(), "first") == []


def test_unknown_studies_and_items_are_not_found(client: FlaskClient, study: ReaderStudy) -> None:
    problem(client.post("/study/first/answers", json=reply({"item": 4}, "left", reader=1)), 404)
    for address in ("/study/second", "/study/second/results", "/study/second/answers.csv"):
        assert client.get(address).status_code == 404
    missing = client.get("/study/second", headers={"Accept": "text/html", "Accept-Language": "fr"})
    assert (missing.status_code, missing.mimetype) == (404, "text/html")
    assert '<html lang="fr"' in missing.text


def test_a_study_of_a_collection_that_is_not_served_is_hidden(
    client: FlaskClient, items: list[StudyItem]
) -> None:
    reader_studies.add_study(database(), ReaderStudy(**vars(STUDY) | {"collection": "another"}), items)
    assert client.get("/study/first").status_code == 404
    assert "/study/first" not in client.get("/studies").text


def test_results_and_csv_are_by_methods(
    client: FlaskClient, study: ReaderStudy, items: list[StudyItem]
) -> None:
    for reader in (1, 2):
        for shown in begin(client, reader)["items"]:
            better = "right" if shown["left"] == list(items[0].a) else "left"  # b
            client.post("/study/first/answers", json=reply(shown, better, reader=reader, note="=1+1"))
    page = client.get("/study/first/results").text
    assert "A is none, B is eprf" in page
    assert "Preferred A: 0, equal: 0, preferred B: 6" in page
    assert "p = 0.250" in page  # of three queries by the sign test: 2 / 2^3
    rows = list(csv.DictReader(client.get("/study/first/answers.csv").text.splitlines()))
    assert [row["preferred"] for row in rows] == ["b"] * 6
    assert rows[0]["note"] == "'=1+1"
    assert {row["query"] for row in rows} == {item.query for item in items}


def test_results_without_answers_are_shown(client: FlaskClient, study: ReaderStudy) -> None:
    assert client.get("/study/first/results").status_code == 200


# Access


@pytest.mark.parametrize("part", ["items", "answers"])
def test_only_json_is_read(study: ReaderStudy, client: FlaskClient, part: str) -> None:
    problem(client.post(f"/study/{study.name}/{part}", data="{}", content_type="text/plain"), 415)


@pytest.fixture
def guarded(indexed: Path, state: Path) -> Flask:
    return create_app(indexed, settings.load(require_tokens=True, state_folder=state))


def holder(app: Flask, state: Path, *scopes: Scope, **limits: Any) -> FlaskClient:
    client = app.test_client()
    _, text = stored_tokens(state).create(scopes, **limits)
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    return client


@pytest.fixture
def guarded_study(each_database: str, indexed: Path, state: Path, items: list[StudyItem]) -> None:
    made = ReaderStudy(**vars(STUDY) | {"collection": indexed.name})
    reader_studies.add_study(open_state(settings.load(state_folder=state)), made, items)


@pytest.mark.usefixtures("guarded_study")
def test_each_login_is_one_reader_whatever_it_says(guarded: Flask, state: Path) -> None:
    first, second, third = (holder(guarded, state, Scope.search) for _ in range(3))
    assert begin(first, 2)["reader"] == 1
    assert begin(second, 1)["reader"] == 2
    assert begin(first, None)["reader"] == 1
    first.post("/study/first/answers", json=reply({"item": 1}, "left", reader=2))
    assert [
        each.reader
        for each in reader_studies.read_answers(open_state(settings.load(state_folder=state)), "first")
    ] == [1]
    assert "all its 2 readers" in problem(third.post("/study/first/items", json={}), 404)


@pytest.mark.usefixtures("guarded_study")
def test_only_the_owner_sees_results(guarded: Flask, state: Path) -> None:
    reader, owner = holder(guarded, state, Scope.search), holder(guarded, state, Scope.admin, Scope.search)
    for address in ("/study/first/results", "/study/first/answers.csv"):
        problem(reader.get(address), 403)
        assert owner.get(address).status_code == 200
    assert "/study/first/results" not in reader.get("/study/first").text
    assert "/study/first/results" in owner.get("/study/first").text


@pytest.mark.usefixtures("guarded_study")
def test_callers_limited_to_some_images_see_no_study(guarded: Flask, state: Path, indexed: Path) -> None:
    for limits in ({"where": ["label=odd"]}, {"collections": ["another"]}):
        limited = holder(guarded, state, Scope.search, **limits)
        hidden = problem(limited.post("/study/first/items", json={}), 404)
        unknown = problem(limited.post("/study/second/items", json={}), 404)
        assert hidden == unknown.replace("second", "first")
    ingesting = holder(guarded, state, Scope.ingest)
    problem(ingesting.post("/study/first/items", json={}), 403)


@pytest.mark.usefixtures("guarded_study")
def test_reading_is_audited_and_readers_are_stored_as_hashes(
    guarded: Flask, state: Path, items: list[StudyItem]
) -> None:
    client = holder(guarded, state, Scope.search)
    begin(client)
    database = open_state(settings.load(state_folder=state))
    if database.shared:  # so that all services have one audit log
        with database.reading() as connection:
            lines = connection.scalars(
                select(audit_lines.lines.c.line).order_by(audit_lines.lines.c.number)
            ).all()
    else:
        lines = (state / "audit.jsonl").read_text().splitlines()
    line = json.loads(lines[-1])
    assert line["action"] == "study"
    assert set(line["images"]) == {item.query for item in items}
    with open_state(settings.load(state_folder=state)).reading() as connection:
        (row,) = connection.execute(select(reader_studies.readers)).all()
    assert row.reader == 1
    assert line["token"] not in row.who


# Erasing


def test_an_erased_patient_leaves_all_studies(
    client: FlaskClient, study: ReaderStudy, items: list[StudyItem]
) -> None:
    for shown in begin(client)["items"]:
        relevant = dict.fromkeys((*items[0].a, *items[0].b), True)
        client.post("/study/first/answers", json=reply(shown, "left", reader=1, relevant=relevant))
    order = [item["item"] for item in begin(client)["items"]]
    gone = {items[1].query, items[0].a[0]}
    erase_from_studies(settings.load(), ["key"], gone)
    left = begin(client)["items"]
    assert [item["item"] for item in left] == [number for number in order if number != 2]
    assert all(item["answer"] for item in left)
    for path in settings.load().state_folder.glob("state.sqlite*"):
        content = path.read_bytes()
        assert not any(image.encode() in content for image in gone)
    assert "-" in left[0]["left"] + left[0]["right"]


def test_an_answer_that_was_read_before_the_erasure_brings_no_image_back(
    study: ReaderStudy, items: list[StudyItem]
) -> None:
    gone, stays = items[0].a[:2]
    erase_from_studies(settings.load(), [], {gone})
    answer = ReaderAnswer(1, items[0].item, 3, 3, 0, True, {gone: True, stays: True}, "", 1.0)
    reader_studies.set_answer(database(), study.name, answer)
    (stored,) = reader_studies.read_answers(database(), study.name)
    assert stored.relevant == {stays: True}


# Commands


def run(*arguments: str | Path) -> str:
    code, out, err = command("evaluate", "study", *arguments, CBIR_STATE_FOLDER=settings.load().state_folder)
    assert code == 0, err
    return out


def create(indexed: Path, *options: str | Path, name: str = "first") -> str:
    return run(
        "create", name, "--collection", indexed, "--a", "none", "--b", "eprf:P=3", "-k", "4", "--jobs", "1", *options
    )  # fmt: skip


def test_create_draws_queries_evenly_and_searches_with_both_methods(
    indexed: Path, ids: list[str], client: FlaskClient
) -> None:
    printed = create(indexed, "--queries", "6", "--label", "label", "--same-patient")
    assert f"{indexed.name} shows the study at /study/first" in printed
    items = reader_studies.read_items(database(), "first")
    with Collection(indexed) as collection:
        labels = [collection.record(item.query).labels["label"] for item in items]
    assert sorted(labels) == ["even"] * 3 + ["odd"] * 3
    for method, attribute in (("none", "a"), ("eprf", "b")):
        parameters = {"P": 3} if method == "eprf" else {}
        body = {"image_id": items[0].query, "k": 4, "rerank": method, "parameters": parameters}
        expected = [hit["image_id"] for hit in client.post("/v1/search", json=body).json["results"]]
        assert list(getattr(items[0], attribute)) == expected
    assert client.get("/study/first").status_code == 200


@ONLY_FILE
def test_the_same_seed_draws_the_same_and_the_patient_is_left_out(indexed: Path) -> None:
    create(indexed, "--queries", "5", "--seed", "3")
    create(indexed, "--queries", "5", "--seed", "3", name="again")
    create(indexed, "--queries", "5", "--seed", "4", name="other")
    drawn = {name: reader_studies.read_items(database(), name) for name in ("first", "again", "other")}
    assert drawn["first"] == drawn["again"]
    assert [item.query for item in drawn["first"]] != [item.query for item in drawn["other"]]
    with Collection(indexed) as collection:
        for item in drawn["first"]:
            patient = collection.record(item.query).patient_key
            assert patient not in [collection.record(image).patient_key for image in (*item.a, *item.b)]


@ONLY_FILE
def test_queries_come_from_a_file_in_its_order(indexed: Path, ids: list[str], tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text(f"{ids[5]}\n{ids[2]}\n{ids[5]}\n")
    create(indexed, "--query-file", file)
    assert [item.query for item in reader_studies.read_items(database(), "first")] == [ids[5], ids[2]]
    file.write_text("no-such-image\n")
    assert "no-such-image" in refusal(
        "evaluate", "study", "create", "x", "--collection", indexed, "--a", "none", "--b", "eprf",
        "--query-file", file,
    )  # fmt: skip


@ONLY_FILE
def test_list_report_export_and_delete(indexed: Path, client: FlaskClient, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    create(indexed, "--queries", "3", "--readers", "1", "--judge-images")
    assert run("report", "first").splitlines()[0] == "A is none, B is eprf:P=3; 0 answers to 3 queries"
    for shown in begin(client)["items"]:
        client.post("/study/first/answers", json=reply(shown, "equal", reader=1))
    (row,) = json.loads(run("list", "--format", "json"))
    assert (row["study"], row["queries"], row["answers"]) == ("first", 3, 3)
    assert "first" in run("list")
    run("report", "first", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert "eprf:P=3" in page
    results = json.loads(run("report", "first", "--format", "json"))
    assert results["preference"]["equal"] == 3
    assert run("export", "first", tmp_path / "answers.csv").startswith("3 answers")
    assert (tmp_path / "answers.csv").stat().st_mode & 0o077 == 0
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 4
    run("delete", "first", "--yes")
    assert "no study" in run("list")
    for path in settings.load().state_folder.glob("state.sqlite*"):
        assert row["study"].encode() not in path.read_bytes()
    assert reader_studies.read_answers(database(), "first") == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["a b", "--a", "none", "--b", "eprf"], "letters, digits"),
        (["x", "--a", "none", "--b", "none"], "same method"),
        (["x", "--a", "none eprf", "--b", "none"], "one re-ranker"),
        (["x", "--a", "none", "--b", "nothing"], "nothing"),
        (["x", "--a", "none", "--b", "eprf", "--label", "colour"], "colour"),
        (["x", "--a", "none", "--b", "eprf", "--query-file", "f", "--label", "label"], "omit --label"),
        (["x", "--a", "none", "--b", "eprf", "--query-file", "f", "--where", "label=odd"], "omit --label"),
    ],
)
def test_studies_that_cannot_be_are_refused(indexed: Path, options: list[str], reason: str) -> None:
    assert reason in refusal("evaluate", "study", "create", *options, "--collection", indexed, "--jobs", "1")
    assert reader_studies.list_studies(database()) == []


def test_a_seed_fits_into_the_database(indexed: Path) -> None:
    options = ("--a", "none", "--b", "eprf", "--seed", str(2**63))
    code, _, err = command("evaluate", "study", "create", "first", "--collection", indexed, *options)
    assert code == 2
    assert "--seed" in err


@ONLY_FILE
def test_a_name_is_used_once(indexed: Path) -> None:
    create(indexed, "--queries", "1")
    assert "already" in refusal(
        "evaluate", "study", "create", "first", "--collection", indexed, "--a", "none", "--b", "eprf", "--jobs", "1"
    )  # fmt: skip
