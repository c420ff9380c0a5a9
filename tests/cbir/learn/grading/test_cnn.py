"""A network that learns from graded pictures."""

import math

import cv2
import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.learn.grading import make_ranker
from cbir.learn.grading.cnn_ranker import LOSSES, CnnRanker
from cbir.learn.grading.interpolation import GradeInterpolator

torch = pytest.importorskip("torch", reason="torch, of the extra deep, is not installed")
torch.set_num_threads(1)

from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

SIDE = 32
SHORT = {"epochs": 6, "batch": 20}


def drawn(count, seed):
    """Noise that coarsens with its grade, 0 to 3, (count, SIDE * SIDE), and the grades."""
    random = np.random.default_rng(seed)
    grades = np.arange(count) % 4
    noise = random.integers(0, 256, (count, SIDE, SIDE), dtype=np.uint8)
    pictures = [
        cv2.GaussianBlur(one, (0, 0), 0.4 + 0.6 * grade) for one, grade in zip(noise, grades, strict=True)
    ]
    return np.array(pictures).reshape(count, -1), grades.astype(float)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_orders_pictures_that_it_has_not_seen(loss):
    learnt = CnnRanker(loss, **SHORT).fit(*drawn(120, 0))
    pictures, grades = drawn(40, 1)
    scores = learnt.predict(pictures)
    above = (scores[:, None] > scores) == (grades[:, None] > grades)
    assert above[grades[:, None] != grades].mean() > 0.85
    assert learnt.score(pictures, grades) > 0.9


def test_a_seed_decides():
    pictures, grades = drawn(40, 0)
    one, same, other = (
        CnnRanker(epochs=1, seed=seed).fit(pictures, grades).predict(pictures) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_rate_falls_along_a_cosine():
    rates = []
    hook = register_optimizer_step_post_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    try:
        CnnRanker(epochs=4, batch=16, rate=1e-3).fit(*drawn(32, 0))
    finally:
        hook.remove()
    assert rates == pytest.approx([1e-3 * (1 + math.cos(math.pi * step / 8)) / 2 for step in range(8)])


def test_it_grades_by_its_neighbours():
    grader = GradeInterpolator(make_ranker("cnn", **SHORT), smoothing="auto", coverage=None).fit(
        *drawn(120, 0)
    )
    pictures, grades = drawn(40, 1)
    assert np.abs(grader.predict(pictures) - grades).mean() < 0.6  # the best constant: 1


def test_options_and_a_clone():
    made = make_ranker("cnn", loss="s-ndcg", mirror=True)
    assert clone(made).get_params() == made.get_params()


@pytest.mark.parametrize(
    "options",
    [{"loss": "hinge"}, {"epochs": 0}, {"batch": 3}, {"rate": 0.0}, {"rate": math.inf}, {"backbone": "huge"}],
)
def test_options_that_do_not_fit(options):
    with pytest.raises(InvalidInput):
        CnnRanker(**options).fit(*drawn(16, 0))


@pytest.mark.parametrize(
    "pictures",
    [np.zeros((8, 1000)), np.full((8, 1024), 256.0), np.full((8, 1024), -1.0), np.full((8, 1024), np.nan)],
)
def test_pictures_that_are_none(pictures):
    with pytest.raises(InvalidInput):
        CnnRanker().fit(pictures, np.arange(8) % 4)


def test_pictures_of_another_size():
    learnt = CnnRanker(epochs=1).fit(*drawn(16, 0))
    with pytest.raises(InvalidInput, match="fitted with 1024"):
        learnt.predict(np.zeros((2, 64)))


def test_grades_alike():
    with pytest.raises(InvalidInput, match="are equal"):
        CnnRanker().fit(drawn(8, 0)[0], np.ones(8))


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cnn")
    pictures, grades = drawn(48, 0)
    for number, picture in enumerate(pictures):
        cv2.imwrite(str(folder / f"{number:02d}.png"), picture.reshape(SIDE, SIDE))
    rows = [f"{number:02d}.png,{int(grade)},person {number // 2}" for number, grade in enumerate(grades)]
    (folder / "manifest.csv").write_text("\n".join(["path,grade,patient", *rows]) + "\n")
    told = ["index", str(folder), "--labels", str(folder / "manifest.csv"), "--profile", "color_layout"]
    made = folder / "collection"
    told += ["--jobs", "1"]
    without = {"CBIR_STORE_THUMBNAILS": "false"}
    found = CliRunner().invoke(app, [*told, "--collection", str(made)], catch_exceptions=False, env=without)
    assert found.exit_code == 0, found.output
    return made


def grade(*told):
    return CliRunner().invoke(app, ["grade", *told])


def test_evaluated_by_the_command(collection):
    small = ["--ranker", "cnn", "--encoder", "none"]
    found = grade("evaluate", "--collection", str(collection), *small, "--folds", "2", "--format", "json")
    assert found.exit_code == 0, found.output
    assert '"kappa"' in found.output


def test_it_cannot_be_kept(collection):
    found = grade("fit", "--collection", str(collection), "--ranker", "cnn", "--encoder", "none")
    assert isinstance(found.exception, InvalidInput)
    assert "choose one with --encoder" in str(found.exception)


def test_a_picture_that_is_gone(collection):
    (collection.parent / "03.png").rename(collection.parent / "gone")
    found = grade("evaluate", "--collection", str(collection), "--ranker", "cnn", "--folds", "2")
    (collection.parent / "gone").rename(collection.parent / "03.png")
    assert isinstance(found.exception, InvalidInput)
    assert "1 of 48 graded images have no file any more" in str(found.exception)
