"""Cohorts over the API: beginning, judging, estimating, sharing, exporting, erasing."""

import csv
import io
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.errors import NotFound
from cbir.search import Judgement
from cbir.search.cohorts.missing_images import ProposedImage
from cbir.store import Collection
from cbir.store.records import record_rows
from service.access.token_stores import Scope
from service.app import create_app
from service.client import Client
from service.features.saved.cases.tables import Viewer, add_case, cases
from service.features.saved.cohorts import routes as cohort_routes
from service.features.saved.cohorts import tables as saved_cohorts
from service.features.saved.cohorts.tables import judgements, proposals
from service.features.saved.erase import erase_saved
from service.features.saved.messages import CaseSearch, NewCase
from service.state.database import open_state
from tests.service import wards
from tests.service.conftest import facts_of, problem
from tests.service.wards import HIDDEN, VISIBLE, Ward


@pytest.fixture(scope="session")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return wards.make(tmp_path_factory)


def begin(client: FlaskClient, relevant: list[str], **values: Any) -> Any:
    answer = client.post("/v1/cohorts", json={"title": "Knees", "relevant": relevant, **values})
    assert answer.status_code == 201, answer.text
    return answer.json


def judge(client: FlaskClient, cohort: str, judged: dict[str, bool]) -> Any:
    body = {"judgements": [{"image_id": image, "relevant": value} for image, value in judged.items()]}
    answer = client.post(f"/v1/cohorts/{cohort}/judgements", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json


def batch(client: FlaskClient, cohort: str, count: int = 24) -> Any:
    answer = client.post(f"/v1/cohorts/{cohort}/batch?count={count}")
    assert answer.status_code == 200, answer.text
    return answer.json


def titles(client: FlaskClient) -> list[str]:
    return [item["title"] for item in client.get("/v1/cohorts").json["items"]]


@pytest.mark.usefixtures("each_database")
def test_rounds_until_all_images_are_judged(client: FlaskClient, ids: list[str]) -> None:
    even = set(ids[::2])
    cohort = begin(client, ids[:1], irrelevant=[ids[1]])["id"]
    for _ in range(10):
        answer = batch(client, cohort, 8)
        if not answer["items"]:
            break
        judged = {item["image_id"]: item["image_id"] in even for item in answer["items"]}
        assert judge(client, cohort, judged)["judged"] == answer["estimate"]["judged"] + len(judged)
    estimate = client.get(f"/v1/cohorts/{cohort}/estimate").json
    assert (estimate["found"], estimate["judged"], estimate["images"]) == (len(even), len(ids), len(ids))
    assert (estimate["missing"], estimate["missing_low"], estimate["missing_high"]) == (0, 0, 0)
    assert (estimate["recall"], estimate["advice"]) == (1.0, "complete")
    images = client.get(f"/v1/cohorts/{cohort}").json["images"]
    assert {image["image_id"]: image["relevant"] for image in images} == {each: each in even for each in ids}


def test_images_have_cards_where_they_are_asked_for(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:1])["id"]
    plain, carded = (client.post(f"/v1/cohorts/{cohort}/batch{query}") for query in ("", "?cards=true"))
    assert {item["card"] for item in plain.json["items"]} == {None}
    assert all(item["card"]["finding"] == item["labels"]["label"] for item in carded.json["items"])
    (image,) = client.get(f"/v1/cohorts/{cohort}?cards=true").json["images"]
    assert image["card"]["finding"] == "even"


def test_the_page_of_a_cohort(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:2], irrelevant=ids[2:3])
    facts = facts_of(client.get(f"/saved/cohorts/{cohort['id']}").text)
    assert (facts["cohort"], facts["history"]) == (cohort, "110")
    assert client.get("/saved/cohorts/0123456789abcdef").status_code == 404


def test_a_batch_has_no_judged_image_and_comes_again_until_it_is_judged(
    client: FlaskClient, ids: list[str]
) -> None:
    cohort = begin(client, ids[:2], irrelevant=[ids[2]])["id"]
    first = batch(client, cohort, 12)
    assert not {item["image_id"] for item in first["items"]} & set(ids[:3])
    assert [item["drawn"] for item in first["items"]].count(True) == 1
    probabilities = [item["probability"] for item in first["items"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert batch(client, cohort, 12) == first
    judge(client, cohort, {first["items"][0]["image_id"]: True})
    assert batch(client, cohort, 12) != first


@pytest.mark.usefixtures("each_database")
def test_undo_takes_back_a_request_and_not_the_beginning(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:2])["id"]
    judge(client, cohort, {ids[2]: True, ids[3]: False})
    judge(client, cohort, {ids[4]: True})
    judged = [client.post(f"/v1/cohorts/{cohort}/undo").json["judged"] for _ in range(3)]
    assert judged == [4, 2, 2]


def test_a_later_judgement_replaces_an_earlier_one(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:2])["id"]
    judge(client, cohort, {ids[1]: False})
    images = client.get(f"/v1/cohorts/{cohort}").json["images"]
    assert [(image["image_id"], image["relevant"]) for image in images] == [(ids[0], True), (ids[1], False)]


@pytest.mark.usefixtures("each_database")
def test_undo_of_a_correction_brings_the_earlier_judgement_back(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:1])["id"]
    proposed = batch(client, cohort, 5)["items"][0]
    judge(client, cohort, {proposed["image_id"]: True})
    assert judge(client, cohort, {ids[0]: False, proposed["image_id"]: False})["found"] == 0
    assert client.get("/v1/cohorts").json["items"][0]["judged"] == 2
    stored = saved_cohorts.read_judgements(open_state(settings.load()), 1)
    assert [each.probability for each in stored] == [None, proposed["probability"]]  # as first proposed
    assert client.post(f"/v1/cohorts/{cohort}/undo").json["found"] == 2
    assert client.post(f"/v1/cohorts/{cohort}/undo").json["found"] == 1
    images = client.get(f"/v1/cohorts/{cohort}").json["images"]
    assert [(image["image_id"], image["relevant"]) for image in images] == [(ids[0], True)]


@pytest.mark.usefixtures("each_database")
def test_a_cohort_that_is_deleted_while_it_is_judged(client: FlaskClient, ids: list[str]) -> None:
    begin(client, ids[:1])
    database = open_state(settings.load())
    saved_cohorts.delete_cohort(database, 1)
    with pytest.raises(NotFound, match="deleted meanwhile"):
        saved_cohorts.judge(database, 1, {ids[1]: True})
    with pytest.raises(NotFound, match="deleted meanwhile"):
        saved_cohorts.propose(database, 1, [ProposedImage(ids[1], 0.5, False)])


@pytest.mark.usefixtures("each_database")
def test_an_erasure_finds_what_was_stored_since_its_image_was_looked_up(
    client: FlaskClient, ids: list[str]
) -> None:
    begin(client, ids[:1])
    database = open_state(settings.load())
    case = NewCase(
        title="Case", search=CaseSearch(image_id=ids[0]), marks=[Judgement(image_id=ids[1], relevance=1)]
    )
    proposed = [ProposedImage(ids[1], 0.5, False)]
    for store in (
        lambda existing: saved_cohorts.judge(database, 1, {ids[1]: True}, existing),
        lambda existing: saved_cohorts.propose(database, 1, proposed, existing),
        lambda existing: add_case(database, "service", "collection", case, None, None, existing),
    ):
        erasure = threading.Thread(target=erase_saved, args=(settings.load(), (), ids[1:2]))

        def look_up(image_ids: Iterable[str], erasure: threading.Thread = erasure) -> set[str]:
            erasure.start()
            erasure.join(0.5)
            return set(image_ids)

        store(look_up)
        erasure.join()
        with database.reading() as connection:
            rows = [connection.execute(table.select()).all() for table in (judgements, proposals, cases)]
        assert ids[1] not in str(rows)


@pytest.mark.usefixtures("each_database")
def test_two_tabs_judge_at_the_same_time(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:1])["id"]
    database = open_state(settings.load())
    with ThreadPoolExecutor(4) as threads:
        list(
            threads.map(
                lambda each: saved_cohorts.judge(database, 1, {each: False, ids[20]: True}), ids[1:13]
            )
        )
    images = client.get(f"/v1/cohorts/{cohort}").json["images"]
    assert {image["image_id"] for image in images} == {*ids[:13], ids[20]}
    for _ in range(12):
        client.post(f"/v1/cohorts/{cohort}/undo")
    assert client.get(f"/v1/cohorts/{cohort}").json["judged"] == 1


def test_conditions_limit_what_is_searched(client: FlaskClient, ids: list[str]) -> None:
    answer = batch(client, begin(client, ids[:1], where=["label=even"])["id"], 100)
    assert {item["labels"]["label"] for item in answer["items"]} == {"even"}
    assert answer["estimate"]["images"] == len(ids) // 2


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"relevant": []}, 422, "relevant"),
        ({"relevant": ["0" * 32]}, 404, "no image"),
        ({"where": ["label>>odd>"]}, 422, "where"),
        ({"title": " "}, 422, "title"),
    ],
)
def test_a_cohort_that_cannot_begin(
    client: FlaskClient, ids: list[str], change: dict[str, Any], status: int, words: str
) -> None:
    answer = client.post("/v1/cohorts", json={"title": "Knees", "relevant": ids[:1], **change})
    if words == "where" and answer.status_code == 422:
        problem(answer, 422)
    else:
        assert words in problem(answer, status)
    assert titles(client) == []


def test_an_image_judged_both_ways(client: FlaskClient, ids: list[str]) -> None:
    both = {"title": "Knees", "relevant": ids[:1], "irrelevant": ids[:1]}
    assert "relevant and not relevant" in problem(client.post("/v1/cohorts", json=both), 422)


def test_without_a_relevant_image_there_is_no_batch(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:1])["id"]
    judge(client, cohort, {ids[0]: False})
    assert "an image that belongs" in problem(client.post(f"/v1/cohorts/{cohort}/batch"), 422)


def test_changing_and_deleting(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:1])["id"]
    changed = client.patch(f"/v1/cohorts/{cohort}", json={"note": "Without implants."}).json
    assert (changed["title"], changed["note"]) == ("Knees", "Without implants.")
    assert client.delete(f"/v1/cohorts/{cohort}").status_code == 204
    assert titles(client) == []
    problem(client.get(f"/v1/cohorts/{cohort}"), 404)


def test_cohorts_of_others_are_private_until_they_are_shared(ward: Ward) -> None:
    owner, other = ward.client(Scope.search), ward.client(Scope.search)
    image = ward.visible[0].image_id
    cohort = begin(owner, [image])["id"]
    problem(other.get(f"/v1/cohorts/{cohort}"), 404)
    owner.patch(f"/v1/cohorts/{cohort}", json={"shared": True})
    assert not other.get(f"/v1/cohorts/{cohort}").json["mine"]
    assert other.get(f"/v1/cohorts/{cohort}/estimate").status_code == 200
    for answer in (
        other.post(f"/v1/cohorts/{cohort}/batch"),
        other.post(f"/v1/cohorts/{cohort}/undo"),
        other.delete(f"/v1/cohorts/{cohort}"),
        other.patch(f"/v1/cohorts/{cohort}", json={"note": "x"}),
    ):
        assert "only its owner" in problem(answer, 404)


def test_a_limited_caller_sees_its_images_only(ward: Ward) -> None:
    owner, limited = ward.client(Scope.search), ward.limited()
    seen, unseen = ward.visible[0].image_id, ward.hidden[0].image_id
    shared = begin(owner, [seen, unseen], shared=True)["id"]
    hidden = begin(owner, [unseen], shared=True)["id"]
    assert [image["image_id"] for image in limited.get(f"/v1/cohorts/{shared}").json["images"]] == [seen]
    listed = {item["id"]: item["found"] for item in limited.get("/v1/cohorts").json["items"]}
    assert listed[shared] == 1
    assert hidden not in listed
    problem(limited.get(f"/v1/cohorts/{hidden}"), 404)
    assert unseen not in limited.get(f"/v1/cohorts/{shared}/export").text
    own = begin(limited, [seen])["id"]
    answer = batch(limited, own, 100)
    assert {item["labels"]["site"] for item in answer["items"]} == {VISIBLE} != {HIDDEN}
    assert answer["estimate"]["images"] == len(ward.visible)
    unknown = {"judgements": [{"image_id": unseen, "relevant": True}]}
    problem(limited.post(f"/v1/cohorts/{own}/judgements", json=unknown), 404)


@pytest.mark.usefixtures("each_database")
def test_erased_images_leave_cohorts(app: Flask, client: FlaskClient, ids: list[str]) -> None:
    cohort, alone = begin(client, ids[:3])["id"], begin(client, ids[2:3])["id"]
    batch(client, cohort)
    erase_saved(settings.load(), (), ids[2:4])
    images = client.get(f"/v1/cohorts/{cohort}").json["images"]
    assert [image["image_id"] for image in images] == ids[:2]
    problem(client.get(f"/v1/cohorts/{alone}"), 404)
    database = open_state(settings.load())
    row = saved_cohorts.find_cohort(database, Viewer("service", ["collection"], True, False), cohort)
    with database.reading() as connection:
        proposed = connection.execute(saved_cohorts.proposals.select()).all()
    assert row.judged == 2
    assert proposed
    assert not {each.image_id for each in proposed} & set(ids[2:4])


def test_an_export_has_all_judged_images(client: FlaskClient, ids: list[str]) -> None:
    cohort = begin(client, ids[:2], irrelevant=[ids[2]])["id"]
    answer = client.get(f"/v1/cohorts/{cohort}/export")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="cohort.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["image_id"], row["relevant"]) for row in rows] == [
        (ids[0], "yes"), (ids[1], "yes"), (ids[2], "no"),
    ]  # fmt: skip
    assert "/" not in answer.text  # no path of a file


@pytest.mark.parametrize("kind", ["csv", "label-studio"])
def test_an_export_has_a_largest_size(
    writable: Path, ids: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection(writable) as collection, collection.writer() as writer:
        writer.set_labels_of(ids[:3], {"note": "x" * 1000})
    client = create_app(writable, settings.load()).test_client()
    cohort = begin(client, ids[:2], irrelevant=[ids[2]])["id"]
    monkeypatch.setattr(record_rows, "BLOCK", 1)
    monkeypatch.setattr(cohort_routes, "MAX_EXPORT_LABELS", 4000)
    assert client.get(f"/v1/cohorts/{cohort}/export", query_string={"format": kind}).status_code == 200
    monkeypatch.setattr(cohort_routes, "MAX_EXPORT_LABELS", 1500)
    answer = client.get(f"/v1/cohorts/{cohort}/export", query_string={"format": kind})
    assert "labels of these images are too long" in problem(answer, 422)


def test_the_most_cohorts_and_judgements(
    client: FlaskClient, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_cohorts, "MAX_COHORTS", 1)
    monkeypatch.setattr(saved_cohorts, "MAX_JUDGEMENTS", 2)
    cohort = begin(client, ids[:2])["id"]
    again = client.post("/v1/cohorts", json={"title": "x", "relevant": ids[:1]})
    assert "as many as allowed" in problem(again, 422)
    more = {"judgements": [{"image_id": ids[2], "relevant": True}]}
    assert "at most 2" in problem(client.post(f"/v1/cohorts/{cohort}/judgements", json=more), 422)


def test_the_client(indexed: Any, ids: list[str]) -> None:
    app = create_app(indexed, settings.load())
    with Client("http://localhost", transport=httpx.WSGITransport(app)) as client:
        cohort = client.begin_cohort("Knees", ids[:1], irrelevant=ids[1:2])
        items = client.next_cohort_batch(cohort.id, 3).items
        client.judge_cohort(cohort.id, {items[0].image_id: True})
        assert client.cohort_estimate(cohort.id).found == 2
        assert client.undo_cohort(cohort.id).found == 1
        assert client.change_cohort(cohort.id, shared=True).shared
        assert [image.image_id for image in client.cohort(cohort.id).images] == ids[:2]
        assert client.export_cohort(cohort.id, "coco").startswith("{")
        assert [each.id for each in client.cohorts()] == [cohort.id]
        client.delete_cohort(cohort.id)
        assert list(client.cohorts()) == []
