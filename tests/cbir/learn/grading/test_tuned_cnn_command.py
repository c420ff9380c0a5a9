"""`cbir grade` with a network that is trained further: fitted, stored in the collection, and used without torch."""

import json
import sys

import cv2
import numpy as np
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.images import read_images
from cbir.images.scaling import pad_resize
from cbir.learn.grading.grader import Grader
from cbir.learn.grading.stored_grading import StoredNetwork
from cbir.store import Collection
from tests.cbir.learn.grading.test_tuned_cnn import drawn

pytestmark = pytest.mark.slow

COUNT = 102
OPTIONS = [
    "--ranker",
    "cnn",
    "--window",
    "whole,centre",
    "--networks",
    "2",
    "--epochs",
    "1",
    "--fine-tune",
    "1",
]
OPTIONS += ["--side", "64"]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"CBIR_STORE_THUMBNAILS": "false"})


def said(*arguments):
    found = run(*arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """102 graded pictures in a collection with a fitted network, and one picture without a grade."""
    folder = tmp_path_factory.mktemp("tuned")
    pictures, grades = drawn(COUNT)
    rows = ["path,grade,patient"]
    for number, (picture, grade) in enumerate(zip(pictures, grades, strict=True)):
        cv2.imwrite(str(folder / f"{number:03d}.png"), picture)
        rows.append(f"{number:03d}.png,{int(grade)},person {number // 2}")
    cv2.imwrite(str(folder / "new.png"), drawn(3, seed=5)[0][2])
    (folder / "manifest.csv").write_text("\n".join([*rows, "new.png,,person new"]) + "\n")
    made = folder / "collection"
    said(
        "index",
        folder,
        "--labels",
        folder / "manifest.csv",
        "--profile",
        "color_layout",
        "--jobs",
        "1",
        "--collection",
        made,
    )
    printed = json.loads(said("grade", "fit", "--collection", made, *OPTIONS, "--format", "json"))
    assert printed["ranker"] == "cnn"
    assert printed["images"] == COUNT
    assert printed["range"] == [0.0, 2.0]
    return made


def test_the_grade_of_a_file_and_of_an_image(collection):
    path = collection.parent / "new.png"
    with Collection(collection) as opened:
        number = next(
            record.image_id for _, record in opened.page(0, 200, ()) if record.source.endswith("new.png")
        )
    by_file, by_id = (
        json.loads(said("grade", "predict", image, "--collection", collection, "--format", "json"))
        for image in (path, f"id:{number}")
    )
    assert by_file == by_id
    assert by_file["graded"] == COUNT
    assert by_file["low"] <= by_file["grade"] <= by_file["high"]
    for name, sign in (("lighter", 1), ("severer", -1)):
        assert by_file[name] is None or sign * (by_file["score"] - by_file[name]["score"]) >= 0


def test_both_networks_are_stored(collection):
    """The score is their mean; a grader of one network, as earlier versions stored it, opens too."""
    image = next(iter(read_images(collection.parent / "new.png")))
    with Collection(collection) as opened:
        score = Grader(opened, "grade").by_image(image).score
        kept = json.loads(opened.grade_model("grade"))["network"]
    (other,) = kept.pop("others")
    picture = pad_resize(image, 64)
    grades = [
        StoredNetwork.model_validate({**kept, **tuned}).open_network().grade(picture)[0]
        for tuned in ({}, other)
    ]
    assert kept["window"] == "whole"
    assert other["window"] == "centre"
    assert abs(grades[0] - grades[1]) > 1e-6
    assert score == pytest.approx(sum(grades) / 2, abs=1e-12)


def test_a_stored_network_whose_parts_differ_in_number_is_refused(collection):
    with Collection(collection) as opened:
        kept = json.loads(opened.grade_model("grade"))["network"]
    for damage in ({"scores": kept["scores"][1:]}, {"levels": kept["levels"][::-1]}):
        with pytest.raises(ValidationError, match=r"differ in number|ascending"):
            StoredNetwork.model_validate({**kept, **damage})


def test_the_service_s_picture_gets_the_same_grade(collection):
    image = next(iter(read_images(collection.parent / "new.png")))
    with Collection(collection) as opened:
        grader = Grader(opened, "grade")
        assert grader.picture_side() == 64
        assert grader.other_encoder() is None
        picture = pad_resize(image, 64)
        query = QueryImage(picture, image.content_hash, image.width, image.height, image.format, None)
        assert grader.by_image(query) == grader.by_image(image)
        vector = QueryImage(np.zeros(33, np.float32), "0", 64, 64, "PNG", None)
        with pytest.raises(InvalidInput, match="send the image again"):
            grader.by_image(vector)


def test_torch_is_not_needed(collection, monkeypatch):
    monkeypatch.setitem(sys.modules, "cbir.learn.training.ordinal_tuning", None)
    monkeypatch.setitem(sys.modules, "cbir.learn.training.ordinal_tuning", None)
    image = next(iter(read_images(collection.parent / "new.png")))
    with Collection(collection) as opened:
        assert Grader(opened, "grade").by_image(image).graded == COUNT


def test_an_image_unlike_the_graded_ones(collection, tmp_path):
    picture = np.zeros((64, 64), np.uint8)
    cv2.circle(picture, (32, 32), 20, 255, -1)
    cv2.imwrite(str(tmp_path / "circle.png"), picture)
    found = run("grade", "predict", tmp_path / "circle.png", "--collection", collection)
    assert isinstance(found.exception, InvalidInput)
    assert "unlike the graded ones" in str(found.exception)


def test_later_changes_of_the_collection(collection):
    """A grade that is added later joins the list; without its file an image has no grade by its id."""
    with Collection(collection) as opened:
        grader = Grader(opened, "grade")
        record = next(record for _, record in opened.page(0, 200, ()) if record.source.endswith("new.png"))
        other = next(record for _, record in opened.page(0, 200, ()) if record.source.endswith("001.png"))
        assert grader.by_id(other.image_id).graded == COUNT - 2
        with opened.writer() as writer:
            writer.set_labels(record.image_id, {"grade": "2"})
        assert grader.by_id(other.image_id).graded == COUNT - 1
        path = collection.parent / "001.png"
        path.rename(path.with_suffix(".gone"))
        with pytest.raises(InvalidInput, match="no file any more"):
            grader.by_id(other.image_id)
        path.with_suffix(".gone").rename(path)
        with opened.writer() as writer:
            writer.set_labels(record.image_id, {"grade": None})


def test_evaluated_by_the_command(collection):
    found = said(
        "grade", "evaluate", "--collection", collection, *OPTIONS, "--folds", "2", "--format", "json"
    )
    assert json.loads(found)["within_one"] > 0.5


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--encoder", "ct-volume"], "not one of the encoders that can be trained"),
        (["--encoder", "none"], "choose one with --encoder"),
        (["--window", "left"], "there are: auto, whole"),
    ],
)
def test_options_that_do_not_fit(collection, options, why):
    found = run("grade", "fit", "--collection", collection, "--ranker", "cnn", *options)
    assert isinstance(found.exception, InvalidInput)
    assert why in str(found.exception)
