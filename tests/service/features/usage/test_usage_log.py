"""Usage log: events of the search page, what is kept of them, and for how long."""

import io
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection
from service.app import create_app
from service.features.usage import tables as usage_log
from service.features.usage.replay_log import LoggedSearch, read_usage_csv, write_usage_csv
from service.features.usage.tables import erase_usage
from service.state.database import open_state
from tests.service.conftest import command, page_facts, problem

LOG = {"Usage-Search": "log"}


def logging_app(folder: Path, **options: Any) -> Flask:
    return create_app(folder, settings.load(usage_log=True, **options))


@pytest.fixture
def page(indexed: Path) -> FlaskClient:
    """A client of a service that logs usage."""
    return logging_app(indexed).test_client()


def log() -> list[LoggedSearch]:
    return list(usage_log.read_usage(open_state(settings.load())))


def search(client: FlaskClient, **body: Any) -> tuple[str, list[str]]:
    """Search as the page does; the id of the search, and those of the answers."""
    done = client.post("/v1/search", json={"k": 5, "rerank": "none"} | body, headers=LOG)
    assert done.status_code == 200, done.text
    return done.headers["Usage-Search"], [hit["image_id"] for hit in done.json["results"]]


def send(client: FlaskClient, *events: dict[str, Any]) -> None:
    assert client.post("/usage", json={"events": list(events)}).status_code == 204


def event(search: str, kind: str, image: str = "", value: int = 1) -> dict[str, Any]:
    return {"search": search, "event": kind, "image": image, "value": value}


def test_only_json_is_read(page: FlaskClient) -> None:
    problem(page.post("/usage", data='{"events": []}', content_type="text/plain"), 415)


def test_a_search_is_logged_when_it_was_shown(page: FlaskClient, ids: list[str], indexed: Path) -> None:
    name, shown = search(page, image_id=ids[0], k=3)
    assert log() == []
    send(page, event(name, "shown"))
    (logged,) = log()
    assert (logged.search, logged.collection, logged.method, logged.k) == (name, indexed.name, "none", 3)
    assert (logged.kind, logged.query_image, logged.answers) == ("image", ids[0], tuple(shown))
    assert logged.profile == Collection(indexed).profile.hash
    assert abs(logged.time - time.time()) < 60
    send(page, event(name, "shown"))
    assert len(log()) == 1


@pytest.mark.usefixtures("each_database")
def test_events_replace_earlier_ones_and_are_taken_back(page: FlaskClient, ids: list[str]) -> None:
    name, shown = search(page, image_id=ids[0])
    send(
        page, event(name, "shown"), event(name, "compare", shown[1]), event(name, "compare", shown[1]),
        event(name, "relevant", shown[0]), event(name, "relevant", shown[2], -1), event(name, "useful", "", 1),
    )  # fmt: skip
    send(page, event(name, "relevant", shown[0], 0), event(name, "useful", "", -1))
    (logged,) = log()
    assert logged.opened == {shown[1]}
    assert logged.marks == {shown[2]: -1}
    assert logged.useful == -1


def test_unknown_searches_and_other_images_are_ignored(page: FlaskClient, ids: list[str]) -> None:
    name, shown = search(page, image_id=ids[0])
    other = next(image for image in ids if image not in shown)
    send(
        page, event("made-up", "shown"), event("made-up", "compare", shown[0]), event(name, "compare", shown[0]),
    )  # fmt: skip
    assert log() == []
    send(
        page, event(name, "shown"), event(name, "compare", other), event(name, "useful", shown[0]),
        event(name, "compare", ""), event(name, "viewer", shown[0], -1),
    )  # fmt: skip
    (logged,) = log()
    assert logged.events == {}


@pytest.mark.parametrize(
    "body",
    [{}, {"events": [{"search": "a"}]}, {"events": [{"search": "a", "event": "read"}]},
     {"events": [{"search": "a", "event": "useful", "value": 2}]},
     {"events": [{"search": "a", "event": "shown", "name": "Doe"}]},
     {"events": [{"search": "a", "event": "shown"}] * 51}],
)  # fmt: skip
def test_other_events_are_refused(page: FlaskClient, body: dict[str, Any]) -> None:
    problem(page.post("/usage", json=body), 422)


def test_events_are_limited_per_minute(page: FlaskClient) -> None:
    statuses = [page.post("/usage", json={"events": []}).status_code for _ in range(125)]
    assert statuses[:120] == [204] * 120
    assert 429 in statuses[120:]


def test_nothing_is_logged_by_default(client: FlaskClient, ids: list[str]) -> None:
    done = client.post("/v1/search", json={"image_id": ids[0]}, headers=LOG)
    assert "Usage-Search" not in done.headers
    assert "usage_log" in problem(client.post("/usage", json={"events": []}), 404)
    assert 'id="usage"' not in client.get("/").text
    assert not open_state(settings.load()).exists()


def test_scripts_are_not_logged(page: FlaskClient, ids: list[str]) -> None:
    assert "Usage-Search" not in page.post("/v1/search", json={"image_id": ids[0]}).headers


def test_the_page_says_that_it_logs(page: FlaskClient) -> None:
    assert page_facts(page)["parts"]["usage"] == {"log": True, "vectors": False}


def upload(client: FlaskClient, picture: bytes, **form: Any) -> LoggedSearch:
    done = client.post(
        "/v1/search",
        data={"image": (io.BytesIO(picture), "Doe^Jane.png"), "rerank": "none"} | form,
        headers=LOG,
    )
    assert done.status_code == 200, done.text
    send(client, event(done.headers["Usage-Search"], "shown"))
    return log()[-1]


def test_vectors_of_uploads_need_a_setting_of_their_own(indexed: Path, pictures: list[Path]) -> None:
    new = pictures[-1].read_bytes()  # which is not in the collection
    logged = upload(logging_app(indexed).test_client(), new)
    assert (logged.kind, logged.query_image, logged.vector) == ("upload", None, None)


def test_the_vector_of_an_upload_is_the_one_searched_with(indexed: Path, pictures: list[Path]) -> None:
    client = logging_app(indexed, usage_vectors=True).test_client()
    logged = upload(client, pictures[-1].read_bytes())
    assert logged.vector is not None
    body = {"vector": logged.vector.tolist(), "rerank": "none"}
    again = client.post("/v1/search", json=body).json
    assert [hit["image_id"] for hit in again["results"]] == list(logged.answers)


def test_an_upload_of_an_image_of_the_collection_is_logged_by_its_id(
    indexed: Path, pictures: list[Path], ids: list[str]
) -> None:
    logged = upload(logging_app(indexed, usage_vectors=True).test_client(), pictures[0].read_bytes())
    assert (logged.kind, logged.query_image, logged.vector) == ("image", ids[0], None)


def test_searches_that_cannot_be_repeated_say_so(page: FlaskClient, ids: list[str]) -> None:
    name, _ = search(page, image_id=ids[0], where=["label=odd"], group_by="label", k=2)
    send(page, event(name, "shown"))
    body = {"image_id": ids[0], "feedback": [{"image_id": ids[1], "relevance": 1}], "rerank": "feedback"}
    several, _ = search(page, **body)
    send(page, event(several, "shown"))
    examples, _ = search(page, examples=ids[:2], rerank="feedback")
    send(page, event(examples, "shown"))
    by_name = {logged.search: logged for logged in log()}
    assert (by_name[name].filters, by_name[name].grouped, by_name[name].kind) == (1, True, "image")
    assert (by_name[several].judgements, by_name[several].kind) == (1, "image")
    assert by_name[examples].kind == "other"
    text = (settings.load().state_folder / "state.sqlite").read_bytes()
    assert b"odd" not in text


def test_nothing_identifies_a_person(writable: Path, pictures: list[Path], tmp_path: Path) -> None:
    client = logging_app(writable, usage_vectors=True).test_client()
    upload(client, pictures[-1].read_bytes(), exclude_patient="4711")
    folder = settings.load().state_folder
    text = b"".join(path.read_bytes() for path in folder.glob("state.sqlite*"))
    for private in (b"Doe", b"4711", b"patient-", b"127.0.0", str(pictures[-1].parent).encode()):
        assert private not in text


@pytest.mark.usefixtures("each_database")
def test_the_oldest_searches_are_dropped(indexed: Path, ids: list[str]) -> None:
    client = logging_app(indexed, usage_searches=2).test_client()
    names = []
    for image in ids[:3]:
        name, shown = search(client, image_id=image)
        send(client, event(name, "shown"), event(name, "compare", shown[0]))
        names.append(name)
    assert len(log()) == 2


@pytest.mark.usefixtures("each_database")
def test_old_searches_are_dropped(tmp_path: Path) -> None:
    database = open_state(settings.load(state_folder=tmp_path))
    now = int(time.time())
    for name, when in (("old", now - 2 * 86_400 - 60), ("new", now - 86_400)):
        search = LoggedSearch(name, when, "c", "p", "none", 5, "image", ("a",))
        usage_log.add_search(database, search, (2, 10))
    assert [search.search for search in usage_log.read_usage(database)] == ["new"]


@pytest.mark.usefixtures("each_database")
def test_deleted_images_vanish(writable: Path, ids: list[str]) -> None:
    client = logging_app(writable).test_client()
    name, shown = search(client, image_id=ids[0])
    send(client, event(name, "shown"), event(name, "compare", shown[1]), event(name, "relevant", shown[2]))
    other, _ = search(client, image_id=shown[1])
    send(client, event(other, "shown"), event(other, "useful"))
    assert client.delete(f"/v1/images/{shown[1]}").status_code == 204
    (logged,) = log()  # the other search had the deleted image as its query
    assert logged.answers == (shown[0], "-", *shown[2:])
    assert set(logged.events) == {("relevant", shown[2])}


def test_images_deleted_by_other_programs_vanish_with_the_next_event(writable: Path, ids: list[str]) -> None:
    client = logging_app(writable).test_client()
    name, shown = search(client, image_id=ids[0])
    send(client, event(name, "shown"))
    with Collection(writable) as collection, collection.writer() as writer:
        writer.delete([shown[0]])
    send(client)
    (logged,) = log()
    assert logged.answers == ("-", *shown[1:])


@pytest.mark.usefixtures("each_database")
def test_a_patient_who_is_erased_vanishes_at_once(writable: Path, ids: list[str]) -> None:
    client = logging_app(writable).test_client()
    name, shown = search(client, image_id=ids[0])
    send(client, event(name, "shown"), event(name, "compare", shown[1]))
    erase_usage(settings.load(), ["key"], {shown[1], ids[-1]})
    usage_log.set_event(open_state(settings.load()), name, "viewer", shown[1], 1)  # was looked up before
    (logged,) = log()
    assert logged.answers == (shown[0], "-", *shown[2:])
    assert logged.events == {}
    for path in settings.load().state_folder.glob("state.sqlite*"):
        assert shown[1].encode() not in path.read_bytes()


def test_images_deleted_before_their_search_is_reported_are_not_logged(
    writable: Path, ids: list[str]
) -> None:
    client = logging_app(writable).test_client()
    earlier, _ = search(client, image_id=ids[2])
    send(client, event(earlier, "shown"))  # the log follows the deletions from here on
    name, shown = search(client, image_id=ids[0])
    of_deleted, _ = search(client, image_id=shown[1])
    assert client.delete(f"/v1/images/{shown[1]}").status_code == 204
    send(client, event(name, "shown"), event(of_deleted, "shown"))
    by_name = {logged.search: logged for logged in log()}
    assert by_name.keys() == {earlier, name}
    assert by_name[name].answers == (shown[0], "-", *shown[2:])


@pytest.mark.usefixtures("each_database")
def test_many_images_vanish_from_one_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_log, "BATCH", 2)
    database = open_state(settings.load(state_folder=tmp_path))
    for name, collection, query, shown in (
        ("1", "c", "a", "bcd"), ("2", "c", "x", "abc"), ("3", "c", "x", "dex"), ("4", "c", None, "eda"),
        ("5", "another", "a", "abc"), ("6", "c", "x", "efx"),
    ):  # fmt: skip
        logged = LoggedSearch(name, int(time.time()), collection, "p", "none", 3, "image", tuple(shown))
        usage_log.add_search(database, replace(logged, query_image=query), (1, 10))
    usage_log.set_event(database, "4", "compare", "d", 1)
    usage_log.set_event(database, "5", "compare", "a", 1)
    usage_log.forget_images(database, "abcd", "c")
    left = {each.search: each for each in usage_log.read_usage(database)}
    answers = {name: "".join(each.answers) for name, each in left.items()}
    assert answers == {"2": "---", "3": "-ex", "4": "e--", "5": "abc", "6": "efx"}
    assert (left["4"].events, left["5"].events) == ({}, {("compare", "a"): 1})


def test_an_unwritable_state_folder_disturbs_no_search(indexed: Path, ids: list[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    client = logging_app(indexed, state_folder=file / "state").test_client()
    name, _ = search(client, image_id=ids[0])
    send(client, event(name, "shown"))


def test_export_show_and_delete(page: FlaskClient, ids: list[str], indexed: Path, tmp_path: Path) -> None:
    name, shown = search(page, image_id=ids[0])
    send(page, event(name, "shown"), event(name, "compare", shown[1]), event(name, "useful", "", -1))
    folder = {"CBIR_STATE_FOLDER": str(settings.load().state_folder)}
    code, out, err = command("admin", "usage", "show", **folder)
    assert code == 0, err
    assert out.split()[-8:] == [indexed.name, "none", "1", "1", "0", "0", "0", "1"]
    rows = json.loads(command("admin", "usage", "show", "--format", "json", **folder)[1])
    assert rows[0]["not_useful"] == rows[0]["opened"] == 1
    exported = tmp_path / "usage.csv"
    assert command("admin", "usage", "export", exported, **folder)[0] == 0
    (read,) = read_usage_csv(exported)
    (logged,) = log()
    assert {**vars(read), "vector": None} == {**vars(logged), "vector": None}
    assert command("admin", "usage", "delete", "--collection", "another", "--yes", **folder)[1].startswith(
        "0 "
    )
    assert command("admin", "usage", "delete", "--yes", **folder)[1].startswith("1 ")
    assert log() == []
    for path in settings.load().state_folder.glob("state.sqlite*"):
        assert shown[1].encode() not in path.read_bytes()
    assert "no searches" in command("admin", "usage", "show", **folder)[1]


def test_a_csv_keeps_every_field(tmp_path: Path) -> None:
    vector = np.array([0.1, -2.5e30, 0], np.float32)
    search = LoggedSearch(
        "s", 12, "c, \"d\"", "p", "eprf", 7, "upload", ("a", "-", "b"), {"P": 3, "alpha": 0.5}, None, vector, 2, True,
        1, {("compare", "a"): 1, ("relevant", "a"): 1, ("relevant", "b"): -1, ("useful", ""): -1},
    )  # fmt: skip
    file = tmp_path / "log.csv"
    with file.open("w", newline="") as out:
        assert write_usage_csv([search], out) == 1
    (read,) = read_usage_csv(file)
    assert read.vector is not None
    assert read.vector.tobytes() == vector.tobytes()
    assert {**vars(read), "vector": None} == {**vars(search), "vector": None}


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [("parameters", "[1]", "JSON object"), ("time", "soon", "soon"), ("vector", "abc!", "line 2"),
     ("vector", "AADAfw==", "not finite")],
)  # fmt: skip
def test_a_damaged_csv_is_refused_with_its_line(tmp_path: Path, column: str, text: str, reason: str) -> None:
    out = io.StringIO()
    write_usage_csv([LoggedSearch("s", 1, "c", "p", "none", 5, "image", ("a",))], out)
    heads, row = out.getvalue().splitlines()
    cells = row.split(",")
    cells[heads.split(",").index(column)] = text
    file = tmp_path / "log.csv"
    file.write_text("\n".join([heads, ",".join(cells)]))
    with pytest.raises(Exception, match=reason) as refused:
        read_usage_csv(file)
    assert "line 2" in str(refused.value)


def test_another_csv_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("path,label\n")
    with pytest.raises(Exception, match="cbir admin usage export"):
        read_usage_csv(file)
