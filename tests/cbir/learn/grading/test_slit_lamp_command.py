"""Slit-lamp images end to end: phantoms with outlines, model, features, collection, grader, grade of a new image."""

import csv
import json
import re
import shutil
from io import StringIO

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.descriptors.lens_files import LENS_CARD, read_outlines
from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.store import Collection
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.descriptors.lenses import write_model

COUNT = 36
FEATURES = ["mean_intensity", "hue", "saturation", "value", "sulcus_intensity", "lentil_ratio"]


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def succeed(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Phantoms in `lenses`, three others in `new`, and the model of the former."""
    path = tmp_path_factory.mktemp("slit-lamp")
    succeed("dataset", "phantoms", path / "lenses", "--slit-lamp", "--count", COUNT, "--size", 128)
    succeed("dataset", "phantoms", path / "new", "--slit-lamp", "--count", 3, "--size", 128, "--seed", 1)
    fitted = succeed("grade", "slit-lamp", "fit", path / "lenses" / "outlines.csv", "--out", path / "model")
    assert f"32 landmarks from {COUNT} images" in fitted
    return path


@pytest.fixture(scope="module")
def collection(folder):
    labels = ["--labels", folder / "lenses" / "manifest.csv", "--jobs", 1]
    done = run(
        "index", folder / "lenses", *labels, "--profile", folder / "model", "--collection", folder / "col"
    )
    assert done.exit_code in (0, 3), done.output  # 3: the tables are no images
    return folder / "col"


def manifest(folder):
    with (folder / "manifest.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_phantoms_have_grades_and_outlines(folder):
    rows = manifest(folder / "lenses")
    assert len(rows) == len({row["patient"] for row in rows}) == COUNT
    assert all(abs(float(row["grade"]) - float(row["severity"])) <= 0.5 for row in rows)
    assert {row["grade"] for row in rows} == {"1", "2", "3", "4"}
    outlines = read_outlines(folder / "lenses" / "outlines.csv")
    assert [path.name for path in outlines] == [row["path"] for row in rows]
    for path, outline in list(outlines.items())[:5]:
        mask = cv2.fillPoly(np.zeros((96, 128), np.uint8), [np.rint(outline).astype(np.int32)], 1)
        grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        rim = cv2.dilate(mask, np.ones((9, 9))) - cv2.dilate(mask, np.ones((3, 3)))
        assert grey[mask > 0].mean() > 2 * grey[rim > 0].mean()


def test_phantoms_are_the_same_again(folder, tmp_path):
    succeed("dataset", "phantoms", tmp_path / "again", "--slit-lamp", "--count", 2, "--size", 128)
    for name in ("lens-000000.png", "lens-000001.png"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / "lenses" / name).read_bytes()
    refused = run("dataset", "phantoms", tmp_path / "again", "--slit-lamp", "--count", 2, "--size", 256)
    assert "holds phantoms of" in str(refused.exception)
    for options, why in (
        (["--series"], "leave --series"),
        (["--format", "dicom"], "leave --series and --format out"),
        (["--size", "64"], "height of a phantom"),
        (["--count", "0"], "at least 1"),
        (["--seed", "-1"], "negative"),
    ):
        refused = run("dataset", "phantoms", tmp_path / "none", "--slit-lamp", *options)
        assert why in str(refused.exception)
    assert not (tmp_path / "none").exists()


def test_features_are_printed_and_drawn(folder, tmp_path):
    images = [folder / "new" / f"lens-00000{number}.png" for number in range(3)]
    command = ["grade", "slit-lamp", "features", *images, "--model", folder / "model"]
    rows = json.loads(succeed(*command, "--format", "json", "--report", tmp_path / "report"))
    assert [list(row) for row in rows] == [["path", *FEATURES]] * 3
    assert [row["path"] for row in rows] == [str(path) for path in images]
    for number, row in enumerate(rows):
        picture = cv2.imread(str(tmp_path / "report" / f"000{number}-lens-00000{number}.png"))
        assert picture.shape == (96, 128, 3)
        assert (picture != cv2.imread(row["path"])).any()
    table = list(csv.DictReader(StringIO(succeed(*command, "--format", "csv"))))
    assert [float(row["lentil_ratio"]) for row in table] == [row["lentil_ratio"] for row in rows]
    assert f"hue {rows[0]['hue']:.3f}, saturation" in succeed(*command)
    grades = [float(row["severity"]) for row in manifest(folder / "new")]
    assert np.argmax(grades) == np.argmax([row["lentil_ratio"] for row in rows])


def test_images_without_a_lens_are_named(folder, tmp_path):
    cv2.imwrite(
        str(tmp_path / "noise.png"), np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    )
    lens = folder / "new" / "lens-000000.png"
    done = run(
        "grade", "slit-lamp", "features", tmp_path / "noise.png", lens, tmp_path / "none.png",
        "--model", folder / "model", "--format", "json",
    )  # fmt: skip
    assert done.exit_code == 3
    assert [row["path"] for row in json.loads(done.stdout)] == [str(lens)]
    assert "noise.png: there is no lens" in done.stderr
    assert "none.png: " in done.stderr


def test_a_collection_of_lenses_grades_new_ones(folder, collection, tmp_path):
    with Collection(collection) as opened:
        assert opened.profile.name == "model"
        assert len(list(opened.iterate())) == COUNT
        assert verify_collection(opened) == []
    succeed("grade", "fit", "--collection", collection)
    for row in manifest(folder / "new"):
        image = folder / "new" / row["path"]
        graded = json.loads(
            succeed("grade", "predict", image, "--collection", collection, "--format", "json")
        )
        assert abs(graded["grade"] - float(row["severity"])) < 1
    cv2.imwrite(
        str(tmp_path / "noise.png"), np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    )
    refused = run("grade", "predict", tmp_path / "noise.png", "--collection", collection)
    assert isinstance(refused.exception, UnreadableImage)
    assert "no lens" in str(refused.exception)


def test_the_model_stays_with_the_collection(folder, collection, tmp_path):
    succeed("collection", "backup", tmp_path / "backup", "--collection", collection)
    succeed("collection", "restore", tmp_path / "backup", tmp_path / "restored")
    with Collection(tmp_path / "restored") as opened:
        card = tmp_path / "restored" / "model" / LENS_CARD
        assert card.read_bytes() == (folder / "model" / LENS_CARD).read_bytes()
        card.write_text(card.read_text().replace('"version": 1', '"version": 2'))
        assert (
            "files of the model are missing or have changed: slit_lamp.json" in verify_collection(opened)[0]
        )
        write_model(card.parent, 12)
        assert "files of the model are missing or have changed" in verify_collection(opened)[0]
    with Collection(tmp_path / "restored") as opened:  # indexed images can still be found
        assert opened.profile.model is None
    other = run("index", folder / "new", "--profile", tmp_path / "none", "--collection", tmp_path / "other")
    assert isinstance(other.exception, InvalidInput)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("lens-000000.png", "gone.png"), "gone.png"),
        (lambda text: text.replace("lens-000000.png", "grey.png"), "the image is grey"),
        (lambda text: text.replace("lens-000000.png", "small.png"), "leaves the image of 20 x 20 pixels"),
        (
            lambda text: text.replace("lens-000000.png", "wide.png"),
            "wide.png: the image has 600 x 110 pixels",
        ),
        (lambda text: re.sub("(lens-000000.png),.*", r"\1,20,30", text), "the outline encloses nothing"),
        (lambda text: "\n".join(text.splitlines()[: 1 + 9 * 32]), "10 outlined images or more, not 9"),
    ],
)
def test_fit_refuses(folder, tmp_path, change, why):
    shutil.copytree(folder / "lenses", tmp_path / "lenses")
    cv2.imwrite(str(tmp_path / "lenses" / "grey.png"), np.zeros((96, 128), np.uint8))
    cv2.imwrite(str(tmp_path / "lenses" / "small.png"), np.full((20, 20, 3), (1, 2, 3), np.uint8))
    cv2.imwrite(str(tmp_path / "lenses" / "wide.png"), np.full((110, 600, 3), (1, 2, 3), np.uint8))
    table = tmp_path / "lenses" / "outlines.csv"
    table.write_text(change(table.read_text()))
    refused = run("grade", "slit-lamp", "fit", table, "--out", tmp_path / "model")
    assert isinstance(refused.exception, InvalidInput)
    assert why in str(refused.exception)
    assert not (tmp_path / "model").exists()


def test_features_need_a_model(folder, tmp_path):
    image = folder / "new" / "lens-000000.png"
    assert isinstance(run("grade", "slit-lamp", "features", image, "--model", tmp_path).exception, NotFound)
    (tmp_path / "file").touch()
    taken = run(
        "grade", "slit-lamp", "features", image, "--model", folder / "model", "--report", tmp_path / "file"
    )
    assert "the report cannot be written" in str(taken.exception)
