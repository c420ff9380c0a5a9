"""Options of a study, its instructions, single images, review, export and the description of its API."""

import csv
import io
import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.base import stored_models
from service.features.annotate import study_options, study_plan
from service.features.annotate.annotation_pages import create_annotation_app, grade_keys, render_instructions
from service.features.annotate.annotation_studies import EXTENSION
from service.features.annotate.study_options import parse_grades
from tests.service.conftest import problem
from tests.service.features.annotate.test_annotate import opened as opened_study
from tests.service.test_api_descriptions import (
    all_fields,
    bodies_of,
    is_described,
    objections,
    operations,
    parameters_of,
)
from tests.service.test_pages import facts_of

DOCS = Path(__file__).parents[4] / "docs"
Opening = Callable[..., FlaskClient]


@pytest.fixture
def opening(writable: Path, tmp_path: Path) -> Iterator[Opening]:
    """Opens a study with some options; nothing is trained."""
    apps = []

    def opened(**options: Any) -> FlaskClient:
        study_plan.save_plan(tmp_path / "study", options)
        app = create_annotation_app(writable, tmp_path / "study", settings.load())
        opened_study(app).trainer.state = "learning"
        apps.append(app)
        return app.test_client()

    yield opened
    for app in apps:
        app.extensions[EXTENSION].close()


def post(client: FlaskClient, address: str, who: str = "Ada", **body: Any) -> Any:
    answer = client.post(address, json={"name": str(uuid.uuid4()), "who": who, **body})
    assert answer.status_code == 200, answer.text
    return answer.json


def get(client: FlaskClient, address: str, **query: Any) -> Any:
    answer = client.get(address, query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.json


@pytest.mark.parametrize(
    ("text", "grades", "names"),
    [
        ("0,1,2", (0, 1, 2), ()),
        ("none, mild,severe", (0, 1, 2), ("none", "mild", "severe")),
        ("0=none,1.5=mild", (0, 1.5), ("none", "mild")),
        ("none", (), ()),
    ],
)
def test_grades_as_an_option(text: str, grades: tuple[float, ...], names: tuple[str, ...]) -> None:
    assert parse_grades(text) == (grades, names)


@pytest.mark.parametrize("text", ["mild,1", "a,a", "a,", "1=a,b", "0=,1=b", "a" * 41 + ",b"])
def test_grades_that_do_not_fit(text: str) -> None:
    with pytest.raises(InvalidInput, match="--grades"):
        parse_grades(text)


def test_new_grades_replace_the_names_of_earlier_ones(tmp_path: Path) -> None:
    study_plan.save_plan(tmp_path, study_options.grade_options("none,mild"))
    assert study_plan.save_plan(tmp_path, {}).grade_names == ("none", "mild")
    assert study_plan.save_plan(tmp_path, study_options.grade_options("0,1,2")).grade_names == ()
    with pytest.raises(InvalidInput, match="--ask"):
        study_plan.save_plan(tmp_path / "other", {"ask": "grades"})


def test_a_plan_of_an_earlier_version_opens(tmp_path: Path) -> None:
    plan = json.loads(study_plan.StudyPlan(grades=(0, 1)).model_dump_json())
    for field in ("grade_names", "ask", "where", "instructions", "references"):
        del plan[field]
    (tmp_path / "study.json").write_text(json.dumps(plan))
    found = study_plan.read_plan(tmp_path)
    assert (found.grades, found.ask, found.where, found.references) == ((0, 1), "pairs", (), ())


def test_keys_of_grades() -> None:
    assert grade_keys((0.0, 1.0, 4.0)) == ["0", "1", "4"]
    assert grade_keys((0.5, 1.5)) == ["1", "2"]
    assert grade_keys(tuple(map(float, range(12)))) == [*"123456789", "", "", ""]


def test_instructions_are_safe() -> None:
    text = "## Read\n\n# First\n\n- **a**\n\n<script>x()</script>\n\n[no](javascript:x()) [b](https://b.org)\n\n![c](https://c.org/d.png)\n"
    html = str(render_instructions(text))
    assert "<script" not in html
    assert "javascript:" not in re.sub(r"\[no\]\(javascript:x\(\)\)", "", html)
    assert "<img" not in html
    assert ">c</p>" in html, "the text instead of the picture"
    assert "<li><strong>a</strong></li>" in html.replace("\n", "")
    assert "<h4>Read</h4>" in html
    assert "<h3>First</h3>" in html
    assert 'rel="noreferrer"' in html
    table = str(render_instructions("|a|\n|:-:|\n|b|\n"))
    assert "<table>" in table
    assert "style=" not in table
    assert render_instructions("") == ""


def test_images_and_texts_of_options(writable: Path, tmp_path: Path) -> None:
    def options(**given: Any) -> dict[str, Any]:
        values = {"where": None, "instructions": None, "reference": None, "reference_label": None, "seed": 0}
        with Collection(writable) as collection:
            return study_options.images_and_texts(collection, tmp_path / "study", **values | given)

    with Collection(writable) as collection:
        records = [record for _, record in collection.iterate()]
    first = records[0].image_id
    assert set(options().values()) == {None}, "what was stored stays"
    assert options(where=["none"], instructions=Path("none"), reference=["none"]) == {
        "where": (), "instructions": "", "references": []
    }  # fmt: skip
    table = tmp_path / "references.csv"
    table.write_text(f"image_id,caption\n{first}, Mild \n", encoding="utf-8")
    references = options(reference=[f"{first}=Severe=bad", str(table)])["references"]
    assert [(each.image, each.caption) for each in references] == [(first, "Severe=bad"), (first, "Mild")]
    values = sorted({record.labels["label"] for record in records})
    drawn = options(reference_label="label")["references"]
    assert sorted({each.caption for each in drawn}) == [f"label {value}" for value in values]
    assert drawn == options(reference_label="label")["references"]
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "long.md").write_bytes(b"a" * (study_options.MAX_BYTES + 1))
    for wrong, words in (
        ({"reference": ["x=y"]}, "id of an image"),
        ({"reference": [f"{'0' * 32}=y"]}, "no image"),
        ({"reference": [f"{first}="]}, "caption"),
        ({"reference": [str(tmp_path / "none.csv")]}, "--reference"),
        ({"reference": [str(tmp_path / "bad.csv")]}, "columns"),
        ({"reference": [f"{first}=x"] * (study_plan.MAX_REFERENCES + 1)}, "allowed"),
        ({"reference_label": "no-such-label"}, "--reference-label"),
        ({"instructions": tmp_path / "none.md"}, "cannot be read"),
        ({"instructions": tmp_path / "bytes.md"}, "UTF-8"),
        ({"instructions": tmp_path / "long.md"}, "more than"),
        ({"where": ["no-such-label=1"]}, "no-such-label"),
        ({"where": [f"label={values[0]}", "label!=" + values[0]]}, "fewer than two"),
    ):
        with pytest.raises(InvalidInput, match=words):
            options(**wrong)


def test_only_images_of_the_conditions_are_judged(opening: Opening, writable: Path) -> None:
    with Collection(writable) as collection:
        records = [record for _, record in collection.iterate()]
    value = records[0].labels["label"]
    expected = {record.image_id for record in records if record.labels["label"] == value}
    client = opening(where=(f"label={value}",), grades=(0.0, 1.0), start=1.0)
    asked = get(client, "/annotate/pairs", who="Ada", count=100)["pairs"]
    assert {image for pair in asked for image in pair.values()} <= expected
    images = get(client, "/annotate/images", who="Ada", count=100)
    assert set(images["images"]) == expected
    assert images["progress"]["images"] == len(expected)
    assert f"label={value}" in client.get("/annotate").text
    rows = csv.DictReader(io.StringIO(client.get("/annotate/export/images.csv").text))
    assert {row["image_id"] for row in rows} == expected


def test_the_conditions_stay_with_the_ranker(tmp_path: Path) -> None:
    folder = tmp_path / stored_models.SEVERITY_FOLDER
    assert stored_models.read_severity_conditions(tmp_path) == ()
    folder.mkdir()
    for text, expected in (('{"where": ["a=b"]}', ("a=b",)), ("{}", ()), ("[", ()), ("[]", ())):
        (folder / stored_models.SEVERITY_CARD).write_text(text)
        assert stored_models.read_severity_conditions(tmp_path) == expected


def test_single_images(opening: Opening) -> None:
    client = opening(grades=(0.0, 1.0), ask="grades", overlap=0.0)
    assert client.get("/").headers["Location"] == "/annotate/single"
    assert [grade["key"] for grade in facts_of(client.get("/annotate/single").text)["grades"]] == ["0", "1"]
    first, second, *_ = get(client, "/annotate/images", who="Ada")["images"]
    given = post(client, "/annotate/grades", seconds=1, image=first, grade=1)
    post(client, "/annotate/grades", seconds=1, image=second, grade=None)
    assert given["progress"]["graded_by_you"] == 1
    after = get(client, "/annotate/images", who="Ada")
    assert not {first, second} & set(after["images"])
    assert after["grades"] == {first: 1.0, second: None}
    assert [each["image"] for each in after["history"]] == [first, second]
    assert get(client, "/annotate/pairs", who="Ada")["grades"] == {first: 1.0}
    bob = get(client, "/annotate/images", who="Bob", count=100)
    assert first not in bob["images"], "one grade is enough"
    assert second in bob["images"], "perhaps Bob can"
    assert bob["history"] == []


def test_a_study_without_grades_has_no_page_for_them(opening: Opening) -> None:
    client = opening()
    assert "--grades" in problem(client.get("/annotate/single"), 409)
    assert "/annotate/single" not in client.get("/annotate").text
    assert get(client, "/annotate/images", who="Ada")["images"] == []


def test_review(opening: Opening) -> None:
    client = opening(overlap=1.0)
    pair = get(client, "/annotate/pairs", who="Ada", count=1)["pairs"][0]
    turned = {"first": pair["second"], "second": pair["first"]}
    judged = "/annotate/judgements"
    post(client, judged, seconds=1, **pair, answer="first")
    post(client, judged, seconds=1, **pair, answer="second")
    post(client, judged, "Bob", seconds=1, **turned, answer="second")
    found = get(client, judged)
    assert (found["who"], found["total"], found["people"]) == (None, 2, ["Ada", "Bob"])
    ada = next(each for each in found["answers"] if each["who"] == "Ada")
    assert (ada["kind"], ada["decision"], ada["image"]) == ("pair", "second", None)
    assert [each["decision"] for each in ada["earlier"]] == ["first"]
    assert [each["decision"] for each in ada["others"]] == ["first"], "in the order of this answer"
    assert ada["contradicts_people"]
    assert get(client, judged, disagreement="people")["total"] == 2
    assert get(client, judged, disagreement="model")["total"] == 0
    assert get(client, judged, judged_by="Bob", limit=1)["answers"][0]["who"] == "Bob"
    assert get(client, judged, offset=2)["answers"] == []
    for wrong in ({"limit": 0}, {"limit": 101}, {"offset": -1}, {"disagreement": "all"}, {"more": 1}):
        problem(client.get(judged, query_string=wrong), 422)
    between = get(client, "/annotate/agreement")["judgements"]["between"]
    assert between == [{"one": "Ada", "other": "Bob", "pairs": 1, "agreed": 0, "kappa": pytest.approx(0)}]
    assert "Judged" in client.get("/annotate/review").text


def test_exports(opening: Opening) -> None:
    client = opening(grades=(0.0, 1.0), grade_names=("none", "mild"))
    image = get(client, "/annotate/images", who="Ada")["images"][0]
    post(client, "/annotate/grades", seconds=1, image=image, grade=1)
    answer = client.get("/annotate/export/judgements.csv")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="judgements.csv"'
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["image"], row["grade"], row["grade_name"], row["who"]) == (image, "1.0", "mild", "Ada")
    found = client.get("/annotate/export/judgements.json").json
    assert found["grades"] == [{"grade": 0.0, "name": "none"}, {"grade": 1.0, "name": "mild"}]
    assert found["judgements"][0]["image"] == image
    images = {
        row["image_id"]: row
        for row in csv.DictReader(io.StringIO(client.get("/annotate/export/images.csv").text))
    }
    assert (images[image]["given_grade"], images[image]["score"]) == ("1.0", "")


def test_small_pictures(opening: Opening, ids: list[str]) -> None:
    client = opening()
    whole = client.get(f"/annotate/images/{ids[0]}/picture")
    small = client.get(f"/annotate/images/{ids[0]}/picture?side=32")
    assert len(small.data) < len(whole.data)
    assert small.headers["ETag"] != whole.headers["ETag"]
    problem(client.get(f"/annotate/images/{ids[0]}/picture?side=5000"), 422)


def test_every_part_of_the_api_is_described(opening: Opening) -> None:
    client = opening()
    document = client.get("/openapi.json").json
    assert document == json.loads((DOCS / "annotation-openapi.json").read_text())
    assert client.get("/docs").status_code == 200
    for name, item in parameters_of(document):
        assert is_described(item), name
        assert objections(document, item["schema"], item["example"]) == [], name
    for name, field in all_fields(document):
        assert is_described(field), name
        assert field.get("examples") or "$ref" in str(field), name
    for name, body in bodies_of(document):
        assert body.get("example") is not None, name
        assert objections(document, body.get("schema", {}), body["example"]) == [], name
    for item in operations(document):
        assert item["x-codeSamples"], item["operationId"]
    described = set(document["paths"])
    for rule in client.application.url_map.iter_rules():
        if rule.rule.startswith("/annotate/") and not rule.rule.endswith(
            ("single", "review", "<path:filename>")
        ):
            assert re.sub(r"<(\w+)>", r"{\1}", rule.rule) in described
