"""`cbir grade` on a small collection of pictures whose texture coarsens with their grade, end to end."""

import json
import shutil
import xml.etree.ElementTree as ElementTree

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors import get as descriptor
from cbir.errors import CollectionBusy, InvalidInput, NotFound
from cbir.evaluation.significance import group_folds
from cbir.images import read_images
from cbir.learn.grading import grader, make_ranker
from cbir.learn.grading.graded_cases import read_graded_cases
from cbir.learn.grading.grader import Grader
from cbir.learn.grading.grader_evaluation import evaluate_grader
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import add_labels, describe_record

COUNT = 60
KEYS = ["within_half", "within_one", "exact", "mae", "kappa", "ndcg"]


def draw(path, number, grade):
    noise = np.random.default_rng(number).integers(0, 256, (48, 48), np.uint8)
    cv2.imwrite(str(path), cv2.GaussianBlur(noise, (0, 0), 0.5 + grade))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """60 pictures of 20 patients with grades 0 to 3, the last three without a grade."""
    tmp_path = tmp_path_factory.mktemp("graded")
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    entries = []
    for number in range(COUNT):
        path, grade = tmp_path / f"{number}.png", number * 7 % 4
        draw(path, number, grade)
        image = next(iter(read_images(path)))
        found = describe_record(image, source=str(path), source_stamp="1", secret=made.secret)
        said = {
            "patient": f"Doe^{number // 3}",
            "half": str(number // 30),
            "odd": "mild" if number == 5 else "1",
        }
        said |= {"grade": str(grade)} if number < 57 else {"grade": ""}
        entries.append((add_labels(found, said, made.secret), descriptor("tamura")(image)))
    with made.writer() as writer:
        writer.add(entries)
        writer.finish()
    made.close()
    return tmp_path


@pytest.fixture
def folder(original, tmp_path):
    """The collection, and beside it the pictures."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path / "collection"


def run(*arguments):
    return CliRunner().invoke(app, ["grade", *map(str, arguments)])


def said(*arguments):
    """What a command printed, which has to be strict JSON."""
    found = run(*arguments, "--format", "json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout, parse_constant=lambda name: pytest.fail(name))


def test_evaluate(folder):
    found = said(
        "evaluate", "--collection", folder, "--grade-column", "grade", "--ranker", "s-ndcg", "--folds", 5
    )
    assert list(found) == KEYS
    assert found["within_one"] > 0.8
    assert said("evaluate", "--collection", folder) == found


@pytest.mark.slow
def test_evaluate_several(folder, tmp_path):
    names = ["ranking-svm", "rankboost", "adarank", "regression", "classification", "ordinal"]
    options = [part for name in names for part in ("--ranker", name)]
    found = said(
        "evaluate", "--collection", folder, *options, "--list-size", 8, "--report", tmp_path / "report"
    )
    assert list(found) == names
    assert all(list(one) == KEYS for one in found.values())
    files = {path.name for path in (tmp_path / "report").iterdir()}
    assert files == {"ndcg.svg", "summary.json"} | {
        f"{kind}-{name}.svg" for kind in ("errors", "grades") for name in names
    }
    for path in (tmp_path / "report").glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
        assert "nan" not in path.read_text()
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert summary["images"] == 57
    assert len(summary["tukey"]) == 15
    assert len(summary["methods"]["ordinal"]["folds"]) == 5
    table = run("evaluate", "--collection", folder, "--ranker", "ranking-svm", "--ranker", "ordinal").output
    assert "one-way analysis of variance" in table
    assert "ranking-svm - ordinal" in table


def test_evaluate_what_is_held_out(folder):
    found = said("evaluate", "--collection", folder, "--held-out", "half=1", "--list-size", "all")
    assert list(found) == KEYS
    for where, why in (("half=7", "select some, but not all"), ("grade<1", "splits the images of")):
        refused = run("evaluate", "--collection", folder, "--held-out", where)
        assert isinstance(refused.exception, InvalidInput)
        assert why in str(refused.exception)


def test_options_of_a_ranker(folder):
    options = ["--form", "paper", "--function", "exponential", "--steps", 2, "--rate", 0.01, "--alpha", 0.002]
    options += ["--kernel", "linear", "--training-list-size", 20]
    assert run("fit", "--collection", folder, *options).exit_code == 0
    with Collection(folder) as collection:
        stored = json.loads(collection.grade_model("grade"))["options"]
    assert [stored[name] for name in ("form", "function", "steps", "rate", "alpha", "list_size")] == [
        *("paper", "exponential", 2, 0.01, 0.002, 20)
    ]
    assert (
        run("fit", "--collection", folder, "--ranker", "ranking-svm", "--c", 2, "--loss", "hinge").exit_code
        == 0
    )
    with Collection(folder) as collection:
        stored = json.loads(collection.grade_model("grade"))["options"]
    assert (stored["C"], stored["loss"]) == (2, "hinge")
    refused = run("fit", "--collection", folder, "--ranker", "ranking-svm", "--steps", 0)
    assert "ranking-svm does not take --steps" in str(refused.exception)


def test_coverage_of_the_intervals(folder):
    options = ["--collection", folder, "--ranker", "ranking-svm", "--coverage", 0.8]
    found = said("evaluate", *options)
    assert list(found) == [*KEYS, "intervals"]
    assert sum(region["images"] for region in found["intervals"]["regions"]) == 57
    assert 0.5 < found["intervals"]["covered"] <= 1
    assert "intervals of 80%" in run("evaluate", *options).output
    assert "covered" in run("evaluate", *options).output
    refused = run("evaluate", "--collection", folder, "--ranker", "ordinal", "--coverage", 0.8)
    assert "ordinal has no intervals" in str(refused.exception)


def test_linear_discriminant_analysis(folder):
    by_command = said("evaluate", "--collection", folder, "--ranker", "classification", "--classifier", "lda")
    with Collection(folder) as collection:
        cases = read_graded_cases(collection, "grade")
    result = evaluate_grader(
        "classification",
        cases.vectors.astype(float),
        cases.grades,
        group_folds(cases.grades, cases.groups(), 5),
        cases.groups(),
        options={"classifier": "lda"},
    )
    assert by_command == pytest.approx(result.overall)
    assert by_command != said("evaluate", "--collection", folder, "--ranker", "classification")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--ranker", "forest"], "s-ndcg, ranking-svm"),
        (["--grade-column", "severity"], "no image has a label 'severity'"),
        (["--grade-column", "odd"], "'mild', which is not a grade"),
        (["--folds", "21"], "21 folds need as many patients"),
        (["--smoothing", "2"], "odd number"),
        (["--smoothing", "much"], "odd number, auto or thresholds"),
        (["--smoothing", "1", "--ranker", "classification"], "classification does not take --smoothing"),
        (["--smoothing", "auto", "--ranker", "cnn"], "cnn does not take --smoothing"),
        (["--list-size", "1"], "a list has 2 images"),
        (["--list-size", "many"], "a number of images or all"),
        (["--training-list-size", "1"], "a list has 2 images"),
        (["--ranker", "rankboost", "--c", "1"], "rankboost does not take --c"),
        (["--where", "grade=1", "--ranker", "ranking-svm"], "are equal"),
        (["--where", "grade"], "key=value"),
    ],
)
def test_evaluate_refuses(folder, options, why):
    found = run("evaluate", "--collection", folder, *options)
    assert isinstance(found.exception, InvalidInput)
    assert why in str(found.exception)


def test_report_needs_a_folder(folder, tmp_path):
    (tmp_path / "file").touch()
    assert isinstance(
        run("evaluate", "--collection", folder, "--report", tmp_path / "file").exception, InvalidInput
    )


@pytest.mark.parametrize("name", ["s-ndcg", "ranking-svm", "adarank", "rankboost"])
def test_fit_and_predict(folder, tmp_path, name):
    kernel = ["--kernel", "linear"] if name in ("s-ndcg", "ranking-svm") else []
    kept = said("fit", "--collection", folder, "--ranker", name, *kernel)
    assert kept["images"] == 57
    assert kept["patients"] == 19
    draw(tmp_path / "new.png", 1000, 2)
    found = said("predict", tmp_path / "new.png", "--collection", folder)
    assert found["low"] <= found["grade"] <= found["high"]
    assert abs(found["grade"] - 2) <= 1
    assert found["graded"] == 57
    assert found["ranker"] == name
    with Collection(folder) as collection:
        for side in ("lighter", "severer"):
            if found[side]:
                assert collection.record(found[side]["image_id"]).labels["grade"] == str(
                    int(found[side]["grade"])
                )
        cases = read_graded_cases(collection, "grade")
        fitted = make_ranker(name).fit(cases.vectors, cases.grades, cases.groups())
        vector = descriptor("tamura")(next(iter(read_images(tmp_path / "new.png"))))
        assert found["score"] == pytest.approx(float(fitted.predict(vector[None])[0]))
    assert "graded images" in run("predict", tmp_path / "new.png", "--collection", folder).output


@pytest.mark.slow
def test_an_image_is_not_its_own_neighbour(folder, tmp_path):
    run("fit", "--collection", folder)
    with Collection(folder) as collection:
        image_id = next(record.image_id for _, record in collection.iterate())
    by_file = said("predict", tmp_path / "0.png", "--collection", folder)
    assert by_file["graded"] == 56
    excluded = said("predict", tmp_path / "0.png", "--collection", folder, "--exclude-patient", "Doe^0")
    assert excluded["graded"] == 54
    assert said("predict", f"id:{image_id}", "--collection", folder) == excluded
    assert isinstance(
        run("predict", f"id:{image_id}", "--collection", folder, "--frame", 1).exception, InvalidInput
    )


def test_newly_graded_images_join_the_list(folder, tmp_path):
    run("fit", "--collection", folder)
    draw(tmp_path / "new.png", 1000, 2)
    with Collection(folder) as collection:
        grading = Grader(collection, "grade")
        image = next(iter(read_images(tmp_path / "new.png")))
        assert grading.by_image(image).graded == 57
        ungraded = next(r.image_id for _, r in collection.iterate() if not r.labels.get("grade"))
        with collection.writer() as writer:
            writer.set_labels(ungraded, {"grade": "2"})
        assert grading.by_image(image).graded == 58
        neighbour = grading.by_image(image).lighter or grading.by_image(image).severer
        with collection.writer() as writer:
            writer.delete([neighbour.image_id])
        assert grading.by_image(image).graded == 57


def test_conditions_are_kept(folder, tmp_path):
    kept = said("fit", "--collection", folder, "--ranker", "ranking-svm", "--where", "half=0")
    assert kept["images"] == 30
    assert said("predict", tmp_path / "40.png", "--collection", folder)["graded"] == 30
    with Collection(folder) as collection:
        other = next(r.image_id for _, r in collection.iterate() if r.labels["half"] == "1")
        with collection.writer() as writer:
            writer.set_labels(other, {"half": "0"})
    assert (
        said("predict", tmp_path / "0.png", "--collection", folder)["graded"] == 30
    )  # without the picture itself


def test_before_fit(folder):
    found = run("predict", "id:x", "--collection", folder)
    assert isinstance(found.exception, NotFound)
    with Collection(folder) as collection:
        image_id = next(record.image_id for _, record in collection.iterate())
    found = run("predict", f"id:{image_id}", "--collection", folder)
    assert "cbir grade fit --grade-column grade" in str(found.exception)


def test_fit_refuses(folder):
    assert isinstance(run("fit", "--collection", folder, "--ranker", "ordinal").exception, InvalidInput)
    assert isinstance(run("fit", "--collection", folder, "--grade-column", "x" * 101).exception, InvalidInput)
    with Collection(folder) as collection, collection.writer():
        assert isinstance(run("fit", "--collection", folder).exception, CollectionBusy)


def test_nothing_learnt_from_the_erased_is_kept(folder):
    run("fit", "--collection", folder)
    with Collection(folder) as collection:
        assert collection.graded_labels() == ["grade"]
        with collection.writer() as writer:
            key = next(record.patient_key for _, record in collection.iterate())
            writer.erase_patient([key])
        assert collection.graded_labels() == []


def test_what_was_stored_by_another_version(folder):
    run("fit", "--collection", folder)
    with Collection(folder) as collection:
        image_id = next(record.image_id for _, record in collection.iterate())
        newer = collection.grade_model("grade").replace('"format":1', '"format":99')
        for text, why in (("{}", "cannot be read"), (newer, "has format 99")):
            with collection.writer() as writer:
                writer.set_grade_model("grade", text)
            with pytest.raises(InvalidInput, match=why):
                Grader(collection, "grade").by_id(image_id)


def test_all_grades_deleted(folder):
    with Collection(folder) as collection:
        grader.fit_grader(collection, "grade", make_ranker("ranking-svm"), where=["half=0"])
        first, *others = read_graded_cases(collection, "grade").image_ids
        with collection.writer() as writer:
            writer.delete(others)
        with pytest.raises(InvalidInput, match="no other image has a grade"):
            Grader(collection, "grade").by_id(first)
