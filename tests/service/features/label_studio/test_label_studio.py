"""Pairs to Label Studio and answers back: shapes of its documentation, and what other files are refused with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms import write_phantoms
from cbir.images import read_images
from indexer.index_job import index_images
from service.features.annotate.active.judgement_journal import PairAnswer, read_journal, valid_judgements
from service.features.annotate.study_files import JOURNAL, AskedPair, StudyRound, read_rounds
from service.features.label_studio import tasks as label_studio_tasks
from service.features.label_studio.tasks import read_label_studio_export

FIRST, SECOND, THIRD = ("0" * 31 + digit for digit in "123")
ROUNDS = [
    StudyRound(number=1, provisional=False, pairs=(AskedPair(FIRST, SECOND),)),
    StudyRound(number=2, provisional=False, pairs=(AskedPair(SECOND, THIRD, True),)),
]
LEFT = {"from_name": "more-severe", "to_name": "first", "type": "pairwise", "value": {"selected": "left"}}
RIGHT = LEFT | {"value": {"selected": "right"}}
ALIKE = {"from_name": "other", "to_name": "first", "type": "choices", "value": {"choices": ["alike"]}}


def annotation(*result: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return an annotation as Label Studio exports it."""
    return {
        "id": 11,
        "completed_by": 7,
        "result": list(result),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2026-03-02T10:00:00.000000Z",
        "updated_at": "2026-03-02T10:00:04.500000Z",
        "lead_time": 4.25,
    } | fields


def task(*annotations: dict[str, Any], first: str = FIRST, second: str = SECOND) -> dict[str, Any]:
    data = {
        "first": "a.png",
        "second": "b.png",
        "first_id": first,
        "second_id": second,
        "study": "s",
        "round": 1,
    }
    return {"id": 1, "data": data, "annotations": list(annotations), "predictions": [], "project": 3}


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[Any], Path]:
    def write(tasks: Any) -> Path:
        (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
        return tmp_path / "export.json"

    return write


def test_answers_become_judgements(exported: Callable[[Any], Path]) -> None:
    path = exported(
        [
            task(
                annotation(LEFT), annotation(RIGHT, id=12, completed_by={"id": 8, "email": "ada@example.org"})
            ),
            task(annotation(LEFT, ALIKE), first=THIRD, second=SECOND),
            task(annotation(was_cancelled=True, completed_by=None, lead_time=None, updated_at=None)),
            task(),
        ]
    )
    judgements = read_label_studio_export(path, "s", ROUNDS)
    assert [(each.who, each.answer, each.round) for each in judgements] == [
        ("label-studio-7", PairAnswer.first, 1),
        ("label-studio-8", PairAnswer.second, 1),
        ("label-studio-7", PairAnswer.alike, 2),
        ("label-studio", PairAnswer.skip, 1),
    ]
    assert (judgements[0].first, judgements[2].first) == (FIRST, THIRD)  # as they were shown
    assert judgements[0].seconds == 4.25
    assert judgements[0].at.isoformat() == "2026-03-02T10:00:04.500000+00:00"
    assert len({each.name for each in judgements}) == 4
    assert [each.name for each in read_label_studio_export(path, "s", ROUNDS)] == [
        each.name for each in judgements
    ]
    changed = exported([task(annotation(RIGHT, updated_at="2026-03-03T10:00:00Z"))])
    assert read_label_studio_export(changed, "s", ROUNDS)[0].name != judgements[0].name


def test_the_latest_answer_of_a_person_counts(exported: Callable[[Any], Path]) -> None:
    later = annotation(RIGHT, id=12, updated_at="2026-03-03T10:00:00+05:00")
    judgements = read_label_studio_export(exported([task(later, annotation(LEFT))]), "s", ROUNDS)
    assert [each.answer for each in valid_judgements(judgements)] == [PairAnswer.second]
    skip = annotation(ALIKE | {"value": {"choices": [label_studio_tasks.SKIP]}})
    assert read_label_studio_export(exported([task(skip)]), "s", ROUNDS)[0].answer is PairAnswer.skip


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({}, "JSON-MIN"),
        ([1], "JSON-MIN"),
        ([{"first": "a.png", "more-severe": "left"}], "JSON-MIN"),
        ([task(annotation(LEFT, lead_time=-1))], "JSON-MIN"),
        ([task(annotation(LEFT, updated_at="2026-03-02T10:00:00"))], "JSON-MIN"),
        ([task(), task(annotation())], "task 2 .*without an answer"),
        ([task(annotation(LEFT), first=FIRST, second=THIRD)], "did not ask for"),
        ([task(first="../secret")], "JSON-MIN"),
        ([task(annotation(LEFT, completed_by="ada@example.org"))], "JSON-MIN"),
        ([task(annotation(LEFT | {"value": {"selected": ["left"]}}))], "JSON-MIN"),
        ([task(annotation(LEFT | {"value": {"selected": "up"}}))], "task 1 .*without an answer"),
        ([task(annotation(ALIKE | {"value": {"choices": ["?"]}}))], "task 1 .*without an answer"),
    ],
)
def test_other_files_are_refused(exported: Callable[[Any], Path], tasks: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_label_studio_export(exported(tasks), "s", ROUNDS)


def test_answers_of_another_study_are_refused(exported: Callable[[Any], Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="another study"):
        read_label_studio_export(exported([task(annotation(LEFT))]), "t", ROUNDS)
    (tmp_path / "no.json").write_bytes(b"\xff[")
    with pytest.raises(InvalidInput, match="JSON export"):
        read_label_studio_export(tmp_path / "no.json", "s", ROUNDS)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_label_studio_export(tmp_path / "none.json", "s", ROUNDS)


def test_the_interface_names_what_tasks_have() -> None:
    view = ElementTree.fromstring(label_studio_tasks.labelling_interface('Which is "worse" & why?'))
    assert view.find("Header") is not None
    assert view.find("Header").get("value") == 'Which is "worse" & why?'  # type: ignore[union-attr]
    images = {each.get("name"): each.get("value") for each in view.iter("Image")}
    assert images == {"first": "$first", "second": "$second"}
    assert [each.get("toName") for each in view.iter("Pairwise")] == ["first,second"]


@pytest.mark.slow
def test_pairs_go_out_and_answers_come_back(tmp_path: Path) -> None:
    write_phantoms(tmp_path / "images", 12, size=64)
    index_images(tmp_path / "images", tmp_path / "collection", profile="tamura", jobs=1)
    study, out = tmp_path / "study", tmp_path / "tasks"
    places = ["--collection", str(tmp_path / "collection"), "--study-dir", str(study)]
    command = ["annotate", "to-label-studio", *places, "--out", str(out)]
    done = CliRunner().invoke(app, [*command, "--count", "4", "--question", "Which is worse?"])
    assert done.exit_code == 0, done.output
    tasks = json.loads((out / "tasks.json").read_text(encoding="utf-8"))
    asked = {pair.pair for round_ in read_rounds(study) for pair in round_.pairs}
    assert len(tasks) == 4
    for each in tasks:
        data = each["data"]
        assert tuple(sorted((data["first_id"], data["second_id"]))) in asked
        assert data["first"] == f"/data/local-files/?d=tasks/images/{data['first_id']}.png"
        picture = next(iter(read_images(out / "images" / f"{data['second_id']}.png")))
        assert picture.content_hash == data["second_id"]
        assert str(tmp_path) not in json.dumps(each)
    assert "Which is worse?" in (out / "labeling-interface.xml").read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InvalidInput)
    answers = [each | {"annotations": [annotation(RIGHT, id=number)]} for number, each in enumerate(tasks)]
    (tmp_path / "export.json").write_text(json.dumps(answers), encoding="utf-8")
    back = ["annotate", "from-label-studio", str(tmp_path / "export.json"), "--study-dir", str(study)]
    assert "4 judgements added" in CliRunner().invoke(app, back).output
    assert "0 judgements added, 4" in CliRunner().invoke(app, back).output
    judgements = valid_judgements(read_journal(study / JOURNAL))
    assert [each.answer for each in judgements] == [PairAnswer.second] * 4
    rest = CliRunner().invoke(
        app, [*command[:-1], str(tmp_path / "rest"), "--images", "https://pictures.example/"]
    )
    assert rest.exit_code == 0, rest.output
    later = json.loads((tmp_path / "rest" / "tasks.json").read_text(encoding="utf-8"))
    judged = {each.pair for each in judgements}
    assert later
    assert later[0]["data"]["first"].startswith("https://pictures.example/")
    assert not judged & {
        tuple(sorted((each["data"]["first_id"], each["data"]["second_id"]))) for each in later
    }
    (study / JOURNAL).unlink()
    assert "judgements.jsonl are missing or empty" in str(CliRunner().invoke(app, back).exception)
