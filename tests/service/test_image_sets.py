"""Images listed in an order, and many labelled, deleted and exported at once."""

import base64
import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection, Record
from service.app import create_app
from tests.service import wards
from tests.service.conftest import problem
from tests.service.wards import HIDDEN, VISIBLE, Scope, Ward

IMAGES = "/v1/images"
VALUES = ["10", "2", "2.0", "-1", "x", "a", None, "2", None, "nan", "é"]


@pytest.fixture
def mine(writable: Path) -> FlaskClient:
    """A client of a collection to be changed."""
    return create_app(writable, settings.load()).test_client()


@pytest.fixture(scope="session")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return wards.make(tmp_path_factory)


def listed(client: FlaskClient, **values: Any) -> list[str]:
    """The ids on all pages of a list."""
    results: list[str] = []
    while True:
        page = client.get(IMAGES, query_string=values).json
        results += [item["image_id"] for item in page["items"]]
        assert len(results) == len(set(results)), "a page repeats images"
        if page["next"] is None:
            return results
        values["cursor"] = page["next"]


def expected(records: list[Record], key: str, *, descending: bool) -> list[str]:
    """The order of a label, the slow way: numbers, other texts, images without the label; ties as added."""

    def number(value: str) -> float | None:
        return float(value) if value.replace(".", "").removeprefix("-").isdigit() else None

    texts = {r.image_id: r.labels.get(key) for r in records}
    numbers = [(number(v), v, i) for i, v in texts.items() if v is not None and number(v) is not None]
    words = [(v, i) for i, v in texts.items() if v is not None and number(v) is None]
    numbers.sort(key=lambda item: item[:2], reverse=descending)  # stable, also in reverse
    words.sort(key=lambda item: item[0].encode(), reverse=descending)
    missing = [i for i, v in texts.items() if v is None]
    return [item[-1] for item in numbers] + [item[-1] for item in words] + missing


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_newest_first(client: FlaskClient, ids: list[str], limit: int) -> None:
    assert listed(client, sort="newest", limit=limit) == ids[::-1]
    assert listed(client, sort="newest", limit=limit, where="label=odd") == ids[1::2][::-1]


@pytest.mark.parametrize("limit", [1, 4, 1000])
@pytest.mark.parametrize("sort", ["label:mixed", "-label:mixed"])
def test_order_of_a_label_with_equal_missing_and_mixed_values(writable: Path, sort: str, limit: int) -> None:
    with Collection(writable) as collection, collection.writer() as writer:
        for number, (_, record) in enumerate(collection.iterate()):
            writer.set_labels(record.image_id, {"mixed": VALUES[number % len(VALUES)]})
        records = [record for _, record in collection.iterate()]
    client = create_app(writable, settings.load()).test_client()
    order = expected(records, "mixed", descending=sort.startswith("-"))
    assert listed(client, sort=sort, limit=limit) == order
    odd = {record.image_id for record in records if record.labels["label"] == "odd"}
    assert listed(client, sort=sort, limit=limit, where="label=odd") == [i for i in order if i in odd]


def test_a_page_goes_on_after_an_image_that_was_deleted(mine: FlaskClient) -> None:
    everything = listed(mine, sort="label:severity")
    page = mine.get(IMAGES, query_string={"sort": "label:severity", "limit": 5}).json
    for image_id in everything[3:6]:
        assert mine.delete(f"{IMAGES}/{image_id}").status_code == 204
    assert listed(mine, sort="label:severity", cursor=page["next"]) == everything[6:]


@pytest.mark.parametrize("sort", ["", "best", "label:", "-newest", "label", "label:nothing", "x" * 300])
def test_unknown_orders_are_refused(client: FlaskClient, sort: str) -> None:
    problem(client.get(IMAGES, query_string={"sort": sort}), 422)


def cursor(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "text",
    ["x", "é", "-1", "1" * 19, cursor(7), cursor([1]), cursor([1, 2]), cursor(["1", "2"]), cursor([-1, "a"]),
     cursor([True, "a"]), cursor([10**18, "a"]), cursor([1, "a\0"]), cursor([1, "a", "b"]), cursor({"a": 1, "b": 2})],
)  # fmt: skip
def test_cursors_of_others_are_refused(client: FlaskClient, text: str) -> None:
    problem(client.get(IMAGES, query_string={"sort": "label:severity", "cursor": text}), 400)


def test_images_of_a_study_and_a_series(ward: Ward) -> None:
    client, records = ward.client(Scope.search), sorted(ward.visible + ward.hidden, key=lambda r: r.source)
    of = next(record for record in records if sum(r.series == record.series for r in records) > 1)
    in_series = {r.image_id for r in records if r.series == of.series}
    assert set(listed(client, study=of.study, series=of.series, limit=2)) == in_series
    assert set(listed(client, study=of.study)) == {r.image_id for r in records if r.study == of.study}
    assert set(listed(ward.limited(), study=of.study)) == {
        r.image_id for r in ward.visible if r.study == of.study
    }
    assert listed(client, study="1.2.3") == []
    problem(client.get(f"{IMAGES}?series={of.series}"), 422)


@pytest.mark.parametrize("limit", [1, 1000])
@pytest.mark.parametrize("level", ["series", "study"])
def test_series_and_studies(ward: Ward, level: str, limit: int) -> None:
    for client, records in (
        (ward.client(Scope.search), ward.visible + ward.hidden),
        (ward.limited(), ward.visible),
    ):
        expected = Counter((r.study, r.series if level == "series" else "") for r in records if r.study)
        groups, values = [], {"level": level, "limit": str(limit)}
        while True:
            page = client.get("/v1/series", query_string=values).json
            groups += page["items"]
            if page["next"] is None:
                break
            values["cursor"] = page["next"]
        assert Counter({(g["study"], g["series"]): g["images"] for g in groups}) == expected
        by_id = {r.image_id: r for r in records}
        for group in groups:
            middle = by_id[group["image_id"]]
            assert (middle.study, middle.labels) == (group["study"], group["labels"])
    some = ward.client(Scope.search).get("/v1/series", query_string={"where": f"site={HIDDEN}"}).json["items"]
    assert sum(g["images"] for g in some) == sum(bool(r.study) for r in ward.hidden)
    problem(client.get("/v1/series?level=patient"), 422)


def test_number_of_images_beside_the_facets(client: FlaskClient, ids: list[str]) -> None:
    assert client.get("/v1/labels").json["images"] == len(ids)
    assert client.get("/v1/labels?where=label=odd").json["images"] == len(ids[1::2])
    assert client.get("/v1/labels?where=label=nobody").json == {"images": 0, "items": []}


# Labels of many


def label_many(client: FlaskClient, ids: list[str], labels: dict[str, str | None]) -> Any:
    return client.patch(IMAGES, json={"ids": ids, "labels": labels})


def test_label_many(mine: FlaskClient, ids: list[str]) -> None:
    answer = label_many(mine, [ids[0], ids[2], ids[0]], {"view": "AP", "label": None})
    assert (answer.status_code, answer.json) == (200, {"labelled": 2})
    assert listed(mine, where="view=AP") == listed(mine, where="!label?") == [ids[0], ids[2]]
    change = mine.get("/v1/collection/history").json["items"][0]
    assert (change["what"], change["images"]) == ("labelled", 2)


def test_label_all_or_none(mine: FlaskClient, ids: list[str]) -> None:
    assert "there is no image nobody" in problem(label_many(mine, [ids[0], "nobody"], {"view": "AP"}), 404)
    assert "view" not in mine.get(f"{IMAGES}/{ids[0]}").json["labels"]
    problem(label_many(mine, [], {"view": "AP"}), 422)
    problem(label_many(mine, ids * 400, {"view": "AP"}), 422)
    problem(label_many(mine, ids, {"a=b": "AP"}), 422)
    problem(label_many(mine, ids, {"patient": "x"}), 422)
    problem(mine.patch(IMAGES, data="x", content_type="text/plain"), 415)


def test_a_limited_caller_labels_visible_images_only(ward: Ward) -> None:
    client, (seen, hidden) = ward.limited(), (ward.visible[0].image_id, ward.hidden[0].image_id)
    problem(label_many(client, [seen, hidden], {"note": "x"}), 404)
    problem(label_many(client, [seen], {"site": HIDDEN}), 403)
    problem(label_many(ward.client(Scope.search), [seen], {"note": "x"}), 403)


# Deleting many


def test_delete_many(mine: FlaskClient, ids: list[str]) -> None:
    answer = mine.post(f"{IMAGES}/delete", json={"ids": [ids[1], "nobody", ids[4]]})
    assert answer.status_code == 200
    assert sorted(answer.json["deleted"]) == sorted([ids[1], ids[4]])
    assert listed(mine) == [image_id for image_id in ids if image_id not in (ids[1], ids[4])]
    assert mine.post(f"{IMAGES}/delete", json={"ids": [ids[1]]}).json == {"deleted": []}


def test_deleting_needs_admin(ward: Ward) -> None:
    body = {"ids": [ward.visible[0].image_id]}
    for client in (ward.limited(), ward.client(Scope.search, Scope.annotate, Scope.originals)):
        problem(client.post(f"{IMAGES}/delete", json=body), 403)


# Export


def table(client: FlaskClient, **body: Any) -> list[dict[str, str]]:
    answer = client.post(f"{IMAGES}/export", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.mimetype == "text/csv"
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_export(mine: FlaskClient, ids: list[str]) -> None:
    label_many(mine, ids[:1], {"note": "=1+1", "format": 'a,"b"\nc'})
    rows = table(mine)
    assert [row["image_id"] for row in rows] == ids
    assert (rows[0]["note"], rows[0]["label:format"], rows[0]["format"]) == ("'=1+1", 'a,"b"\nc', "png")
    assert [row["label"] for row in rows[1:3]] == ["odd", "even"]
    assert [row["image_id"] for row in table(mine, ids=[ids[5], ids[2]])] == [ids[2], ids[5]]
    odd = table(mine, where=["label=odd"], sort="newest")
    assert [row["image_id"] for row in odd] == ids[1::2][::-1]
    assert "note" not in odd[0]  # a label of none of these images
    assert table(mine, where="label=nobody") == []


def test_exports_that_are_refused(client: FlaskClient, ids: list[str]) -> None:
    problem(client.post(f"{IMAGES}/export", json={"ids": ["nobody"]}), 404)
    problem(client.post(f"{IMAGES}/export", json={"ids": ids[:1], "where": ["label=odd"]}), 422)
    problem(client.post(f"{IMAGES}/export", json={"sort": "best"}), 422)


def test_a_limited_caller_exports_visible_images_only(ward: Ward) -> None:
    rows = table(ward.limited())
    assert {row["image_id"] for row in rows} == {record.image_id for record in ward.visible}
    assert {row["site"] for row in rows} == {VISIBLE}


# The page


def test_the_page_offers_what_the_caller_may_do(ward: Ward, client: FlaskClient) -> None:
    buttons = ('"can_label": true', '"can_delete": true', "data-views=")
    pages = {
        "everything": (client.get("/browse").text, [True, True, False]),  # without DICOM images
        "reader": (ward.client(Scope.search).get("/browse").text, [False, False, True]),
        "limited": (ward.limited().get("/browse").text, [True, False, True]),
        "admin": (ward.client(Scope.admin).get("/browse").text, [True, True, True]),
    }
    assert {name: [b in text for b in buttons] for name, (text, _) in pages.items()} == {
        name: offered for name, (_, offered) in pages.items()
    }
    assert '"several": false' in ward.limited().get("/browse").text  # it has one collection only
    assert ward.limited().get("/browse?collection=secret-collection").status_code == 404
