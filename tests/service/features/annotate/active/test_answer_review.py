"""What was judged: history, disagreement, results of images, and the exported tables."""

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate
from cbir.store import Collection
from service.features.annotate import study_plan
from service.features.annotate.active.annotator_agreement import annotator_agreement, grade_agreement
from service.features.annotate.active.judgement_journal import (
    Entry,
    ImageGrade,
    Journal,
    PairAnswer,
    PairJudgement,
    Undo,
    utc_now,
    valid_grades,
)
from service.features.annotate.review_api import filter_answers, review_answers
from service.features.annotate.study_files import TrainedModel
from service.features.annotate.study_results import ANSWER_COLUMNS, answer_rows, study_results, table_csv

IDS = [f"{number:032x}" for number in range(12)]
PLAN = study_plan.StudyPlan(grades=(0.0, 1.0, 2.0), grade_names=("none", "mild", "severe"))


class Entries(list[Entry]):
    """A journal in memory; each entry has a name of its own."""

    def _fields(self, who: str) -> dict[str, object]:
        return {"name": f"entry-{len(self):05d}", "at": utc_now(), "who": who}

    def pair(self, first: int, second: int, answer: str, who: str = "Ada") -> PairJudgement:
        ids = {"first": IDS[first], "second": IDS[second]}
        self.append(PairJudgement(**self._fields(who), seconds=1, **ids, answer=PairAnswer(answer), round=1))
        return self[-1]  # type: ignore[return-value]

    def grade(self, image: int, grade: float | None, who: str = "Ada") -> ImageGrade:
        self.append(ImageGrade(**self._fields(who), seconds=1, image=IDS[image], grade=grade))
        return self[-1]  # type: ignore[return-value]

    def undo(self, undone: PairJudgement | ImageGrade) -> None:
        self.append(Undo(**self._fields(undone.who), undoes=undone.name))


def model(mean: np.ndarray) -> TrainedModel:
    values = mean.astype(np.float32)
    severity = SeverityEstimate(values, np.full_like(values, 0.25), values[:, None])
    return TrainedModel(Path("model"), 1, 5, 5, tuple(IDS[: len(values)]), severity)


def test_changes_and_withdrawals() -> None:
    entries = Entries()
    entries.pair(0, 1, "first")
    changed = entries.pair(1, 0, "first")
    gone = entries.grade(2, 1.0)
    entries.undo(gone)
    entries.pair(0, 1, "alike", "Bob")
    reviewed = review_answers(entries, PLAN, None)
    ada = next(each for each in reviewed if each.answer.who == "Ada")
    assert [each.answer.who for each in reviewed].count("Ada") == 1, "the withdrawn grade is gone"
    assert ada.answer == changed
    assert [each.name for each in ada.earlier] == ["entry-00000"]
    assert [each.who for each in ada.others] == ["Bob"]
    assert ada.surprise is None
    entries.undo(changed)
    again = next(each for each in review_answers(entries, PLAN, None) if each.answer.who == "Ada")
    assert again.answer.name == "entry-00000", "the one before holds again"


def test_disagreement_of_people() -> None:
    entries = Entries()
    entries.pair(0, 1, "first")
    entries.pair(1, 0, "second", "Bob")  # the same opinion, shown the other way round
    entries.pair(2, 3, "first")
    entries.pair(3, 2, "first", "Bob")
    entries.pair(4, 5, "first")
    entries.pair(4, 5, "skip", "Bob")
    entries.grade(6, 1.0)
    entries.grade(6, 2.0, "Bob")
    entries.grade(7, 1.0)
    entries.grade(7, None, "Bob")
    found = filter_answers(review_answers(entries, PLAN, None), disagreement="people")
    assert {frozenset(str(each.answer.who) + each.decision for each in found)} == {
        frozenset({"Adafirst", "Bobfirst", "Ada1", "Bob2"})
    }
    assert len(filter_answers(review_answers(entries, PLAN, None), who="Bob", decision="none")) == 1


def test_disagreement_with_the_model() -> None:
    entries = Entries()
    right, wrong = entries.pair(1, 0, "first"), entries.pair(0, 11, "first")
    worst, unsure = entries.pair(0, 10, "alike"), entries.pair(2, 1, "alike")
    entries.pair(0, 11, "skip", "Bob")
    for image in range(12):
        entries.grade(image, float(image // 4))
    entries.grade(11, 0.0)  # a slip
    reviewed = review_answers(entries, PLAN, model(np.arange(12.0)))
    names = [each.answer.name for each in filter_answers(reviewed, disagreement="model")]
    assert names[0] == entries[-1].name, "two grades away"
    assert {wrong.name, worst.name} == {
        each.name for each in entries if isinstance(each, PairJudgement)
    } & set(names)
    surprise = {each.answer.name: each.surprise for each in reviewed}
    assert surprise[wrong.name] == pytest.approx(1 - 1 / (1 + np.exp(11)))
    assert surprise[unsure.name] == pytest.approx(1 / (1 + np.exp(-1)) - 0.5)
    assert surprise[right.name] == pytest.approx(1 - 1 / (1 + np.exp(-1)))


def test_results_of_images() -> None:
    entries = Entries()
    for image in range(12):
        entries.grade(image, float(image // 4))
    entries.grade(0, 2.0, "Bob")
    entries.grade(1, None, "Bob")
    found = study_results(IDS, PLAN, model(np.arange(11.0)), valid_grades(entries))
    assert found[0][:3] == (IDS[0], 0.0, 0.5)
    assert (found[0].human_grade, found[0].graders) == (0.0, 2), "the lower of two"
    assert found[1].graders == 1
    assert found[11].score is None
    assert [result.grade for result in found[:11]] == sorted(result.grade for result in found[:11])  # type: ignore[type-var]
    assert {result.grade for result in found[:11]} == {0.0, 1.0, 2.0}
    alike = study_results(IDS, PLAN, model(np.arange(12.0)), valid_grades(Entries())[:0])
    assert {(result.grade, result.human_grade) for result in alike} == {(None, None)}
    assert study_results([], PLAN, None, []) == []


def test_tables() -> None:
    entries = Entries()
    first = entries.pair(0, 1, "first", "=cmd()")
    entries.pair(0, 1, "second", "=cmd()")
    entries.grade(2, None)
    entries.undo(entries.grade(3, 2.0))
    rows = answer_rows(entries, PLAN)
    assert [row["state"] for row in rows] == ["replaced", "current", "current", "withdrawn"]
    assert rows[0]["name"] == first.name
    assert (rows[2]["grade"], rows[3]["grade_name"]) == (None, "severe")
    text = table_csv(ANSWER_COLUMNS, rows)
    read = list(csv.DictReader(io.StringIO(text)))
    assert read[0]["who"] == "'=cmd()", "no formula of a spreadsheet"
    assert read[2]["grade"] == ""


def test_agreement_of_grades_and_shares() -> None:
    entries = Entries()
    for image, (ada, bob) in enumerate([(0, 0), (1, 1), (2, 2), (1, 2)]):
        entries.grade(image, float(ada))
        entries.grade(image, float(bob), "Bob")
    entries.grade(9, 1.0)
    entries.grade(9, None, "Bob")
    found = grade_agreement(valid_grades(entries))
    assert (found.people, found.pairs) == (2, 4)
    (between,) = found.between
    assert (between.pairs, between.agreed) == (4, 3)
    table = np.array([[0, 1, 2, 1], [0, 1, 2, 2]], float)
    chance = np.mean([(one - other) ** 2 for one in table[0] for other in table[1]])
    assert between.kappa == pytest.approx(1 - np.mean((table[0] - table[1]) ** 2) / chance)
    pairs = Entries()
    pairs.pair(0, 1, "first")
    pairs.pair(1, 0, "second", "Bob")
    assert annotator_agreement(pairs).between[0].agreed == 1  # type: ignore[arg-type]


def test_export_command(tmp_path: Path, indexed: Path) -> None:
    collection = Path(shutil.copytree(indexed, tmp_path / "collection"))
    with Collection(collection) as opened:
        ids = [record.image_id for _, record in opened.iterate()]
    study = tmp_path / "study"
    study_plan.save_plan(study, {"grades": (0.0, 1.0), "where": ("modality?",)})
    journal = Journal(study / "judgements.jsonl")
    for number, image in enumerate(ids[:3]):
        fields = {"name": f"grade-{number:03d}", "at": utc_now(), "who": "Ada", "seconds": 1}
        journal.add(ImageGrade(**fields, image=image, grade=float(number % 2)))  # type: ignore[arg-type]
    journal.close()

    def export(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["annotate", "export", "--study-dir", str(study), *arguments])
        if done.exception:
            raise done.exception
        return done.output

    rows = list(csv.DictReader(io.StringIO(export())))
    assert [row["image"] for row in rows] == ids[:3]
    export("--format", "json", "--out", str(tmp_path / "out.json"))
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["where"], len(written["judgements"])) == (["modality?"], 3)
    export("--what", "images", "--out", str(tmp_path / "out.csv"), "--collection", str(collection),
           "--write-label", "reading")  # fmt: skip
    with Collection(collection) as opened:
        assert [opened.record(image).labels["reading"] for image in ids[:3]] == ["0", "1", "0"]
        assert "reading" not in opened.record(ids[3]).labels
    of_collection = ["--collection", str(collection), "--write-label"]
    for wrong in (
        ["--write-label", "grade"],
        ["--out", str(tmp_path / "none" / "x.csv")],
        [*of_collection, "severity"],
        [*of_collection, "reading", "--label-source", "predicted"],
    ):
        with pytest.raises(InvalidInput):
            export(*wrong)
