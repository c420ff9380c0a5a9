"""`cbir annotate simulate` on a small collection, and what follows from the severity it writes."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors.descriptor import describe_query
from cbir.errors import InvalidInput, NotFound
from cbir.images import from_array
from cbir.learn.grading import grader, make_ranker
from cbir.learn.grading.grader import Grader
from cbir.learn.severity import stored_ranker
from cbir.learn.severity.stored_images import read_grey_images
from cbir.learn.severity.stored_ranker import LABEL
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.add_transaction import AddTransaction
from cbir.store.records.filter_conditions import parse_filter
from cbir.store.upkeep.backup import back_up_collection
from tests.rights import open_to_others
from tests.service.features.annotate.active.drawn import collection_of, draw

PICTURES, GRADES = draw(66, seed=4)
QUICK = {
    "--rounds": 1,
    "--start": 0.9,
    "--epochs": 12,
    "--steps": 0,
    "--passes": 4,
    "--side": 32,
    "--backbone": "toprank",
}


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def simulated(folder, *arguments):
    quick = [part for option in QUICK.items() if option[0] not in arguments for part in option]
    return run("annotate", "simulate", "--collection", folder, *quick, *arguments)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """60 graded images, and six without a grade."""
    folder = tmp_path_factory.mktemp("drawn")
    made = collection_of(folder, PICTURES, GRADES)
    with made.writer() as writer:
        for record in [record for _, record in made.iterate()][60:]:
            writer.set_labels(record.image_id, {"grade": None})
    made.close()
    return folder


@pytest.fixture
def folder(original, tmp_path):
    shutil.copytree(original / "collection", tmp_path / "collection")
    return tmp_path / "collection"


@pytest.fixture(scope="module")
def learnt(original, tmp_path_factory):
    """The collection after a simulation that wrote its severities, and what it said."""
    folder = tmp_path_factory.mktemp("learnt") / "collection"
    shutil.copytree(original / "collection", folder)
    said = simulated(folder, "--write", "--format", "json", "--report", folder.parent / "report")
    assert said.exit_code == 0, said.output
    return folder, json.loads(said.stdout, parse_constant=lambda name: pytest.fail(name))


def test_it_tells_accuracies_of_every_round(learnt):
    _, said = learnt
    assert list(said) == ["overall", "neighbouring", "rounds"]
    assert [one["round"] for one in said["rounds"]] == [0, 1]
    assert said["overall"] > 0.8
    assert said["rounds"][1]["pairs"] > said["rounds"][0]["pairs"]


def test_every_image_has_a_severity_that_search_filters_by(learnt):
    folder, _ = learnt
    with Collection(folder) as opened:
        values = opened.numeric_labels(LABEL)
        found = opened.page(0, 100, [parse_filter("severity>=0")])
    assert len(values) == 66
    assert {record.image_id for _, record in found} == {name for name, value in values.items() if value >= 0}
    grades = [float(record.labels.get("grade", "nan")) for _, record in found]
    assert np.nanmean(grades) > GRADES[:60].mean()


def test_it_leaves_a_report(learnt):
    folder, said = learnt
    kept = json.loads((folder.parent / "report" / "report.json").read_text())
    assert kept["new-images"]["overall"] == said["overall"]
    assert "<svg" in (folder.parent / "report" / "report.html").read_text()
    assert open_to_others(folder.parent / "report") == []


def test_severity_is_a_ranker_of_grades(learnt, tmp_path):
    folder, _ = learnt
    said = run("grade", "fit", "--collection", folder, "--ranker", "severity", "--format", "json")
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["ranker"] == "severity"
    pictures, grades = draw(6, seed=77)
    errors = []
    for picture, grade in zip(pictures, grades, strict=True):
        cv2.imwrite(str(tmp_path / "new.png"), picture)
        said = run("grade", "predict", tmp_path / "new.png", "--collection", folder, "--format", "json")
        assert said.exit_code == 0, said.output
        errors.append(abs(json.loads(said.stdout)["grade"] - grade))
    assert np.mean(errors) < 0.8
    measured = run("grade", "evaluate", "--collection", folder, "--ranker", "severity", "--format", "json")
    assert measured.exit_code == 0, measured.output
    assert json.loads(measured.stdout)["within_one"] > 0.8


def test_an_image_of_the_collection_and_its_picture_get_one_severity(learnt):
    folder, _ = learnt
    with Collection(folder) as opened:
        grader.fit_grader(opened, "grade", make_ranker("severity"))
        record = opened.record(next(iter(opened.numeric_labels(LABEL))))
        place = next(n for n in range(66) if from_array(PICTURES[n]).content_hash == record.content_hash)
        graded = Grader(opened, "grade")
        by_id = graded.by_id(record.image_id)
        by_image = graded.by_image(from_array(PICTURES[place]), record.patient_key)
    assert by_image.score == pytest.approx(by_id.score, abs=1e-3)
    assert by_image.grade == pytest.approx(by_id.grade, abs=0.05)


def test_the_ranker_goes_into_backups_and_away_with_a_patient(learnt, tmp_path):
    shutil.copytree(learnt[0], tmp_path / "collection")
    with Collection(tmp_path / "collection") as opened:
        back_up_collection(opened, tmp_path / "backup")
        with Collection(tmp_path / "backup") as copied:
            assert asdict(stored_ranker.load_stored_ranker(copied)) == asdict(
                stored_ranker.load_stored_ranker(opened)
            )
        record = next(record for _, record in opened.iterate())
        with opened.writer() as writer:
            writer.erase_patient([record.patient_key])
        with pytest.raises(NotFound, match="no severity"):
            stored_ranker.load_stored_ranker(opened)


@pytest.fixture(scope="module")
def encoded(original, tmp_path_factory):
    """A collection of another descriptor after a simulation with the default encoder."""
    folder = tmp_path_factory.mktemp("encoded") / "collection"
    shutil.copytree(original / "collection", folder)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("encoder", "feature"):
            patch.setenv(f"CBIR_{name.upper()}_FOLDER", str(folder.parent / name))
        said = run("annotate", "simulate", "--collection", folder, "--rounds", 1, "--start", 0.9, "--passes", 4,
                   "--write", "--format", "json")  # fmt: skip
        assert said.exit_code == 0, said.output
        yield folder, json.loads(said.stdout)


@pytest.mark.slow
def test_without_options_it_learns_from_an_encoder(encoded):
    folder, said = encoded
    assert said["overall"] > 0.8
    with Collection(folder) as opened:
        assert len(opened.numeric_labels(LABEL)) == 66
        stored = stored_ranker.load_stored_ranker(opened)
        assert stored_ranker.ranker_descriptor(stored).startswith("encoder:lite0-whole:")
        assert stored_ranker.ranker_side(stored) is None


@pytest.mark.slow
def test_an_image_is_graded_by_the_encoder_of_the_ranker(encoded):
    folder, _ = encoded
    with Collection(folder) as opened:
        grader.fit_grader(opened, "grade", make_ranker("severity"))
        graded = Grader(opened, "grade")
        assert graded.picture_side() is None
        assert graded.other_encoder() == "lite0-whole"
        record = next(iter(opened.iterate()))[1]
        place = next(n for n in range(66) if from_array(PICTURES[n]).content_hash == record.content_hash)
        image = from_array(PICTURES[place])
        described = describe_query(image, profiles.get("lite0-whole").load_descriptor())
        scores = [graded.by_image(query, record.patient_key).score for query in (image, described)]
        assert scores == pytest.approx([graded.by_id(record.image_id).score] * 2, abs=2e-2)


def test_an_encoder_has_no_options_of_pictures(folder):
    found = simulated(folder, "--encoder", "lite0-whole")
    assert isinstance(found.exception, InvalidInput)
    assert "--backbone is for a network that learns from pictures" in str(found.exception)


def test_several_strategies_are_compared(folder):
    said = simulated(folder, "--strategy", "random", "--strategy", "balanced", "--format", "json")
    assert said.exit_code == 0, said.output
    assert list(json.loads(said.stdout)) == ["random", "balanced"]
    with Collection(folder) as opened:
        assert opened.numeric_labels(LABEL) == {}


def test_without_pictures_there_is_a_clear_error(tmp_path):
    collection_of(tmp_path, PICTURES[:12], GRADES[:12]).close()
    for path in tmp_path.glob("*.png"):
        path.unlink()
    found = simulated(tmp_path / "collection")
    assert isinstance(found.exception, InvalidInput)
    assert "none of 12 images has a picture" in str(found.exception)


def test_a_thumbnail_stands_in_for_a_file_and_another_picture_does_not(tmp_path):
    made = collection_of(tmp_path, PICTURES[:3], GRADES[:3])
    records = [record for _, record in made.iterate()]
    _, encoded = cv2.imencode(".jpg", PICTURES[0])
    with made.writer() as writer, writer._engine.begin() as connection:
        AddTransaction(connection).store_thumbnails({1: encoded.tobytes()})
    for record in records[:2]:
        Path(record.source).unlink()
    cv2.imwrite(records[2].source, PICTURES[3])
    seen = read_grey_images(made, 32)
    assert [record.image_id for record in seen.records] == [records[0].image_id]
    assert seen.missing == [records[1].image_id, records[2].image_id]
    assert np.abs(seen.inputs[0].astype(int) - PICTURES[0]).mean() < 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--grade-column", "stage"), "no image has a label 'stage'"),
        (("--strategy", "best"), "unknown strategy 'best'"),
        (("--strategy", "core-set-encoder"), "needs an encoder to learn from"),
        (("--held-out", 0.9), "held-out share"),
        (("--error-rate", 2), "error rate"),
        (("--backbone", "huge"), "there is no backbone"),
        (("--where", "grade=1"), "are equal"),
    ],
)
def test_what_does_not_fit_is_told(folder, arguments, said):
    found = simulated(folder, *arguments)
    assert isinstance(found.exception, InvalidInput)
    assert said in str(found.exception)


def test_grading_by_severity_needs_one(folder):
    with (
        Collection(folder) as opened,
        pytest.raises(InvalidInput, match="60 of 60 graded images have no number"),
    ):
        grader.fit_grader(opened, "grade", make_ranker("severity"))
