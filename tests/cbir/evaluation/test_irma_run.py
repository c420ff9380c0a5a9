"""A submission from folders of phantoms to a scored run, through the commands."""

import csv
import json

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.datasets import phantoms
from tests.cbir.evaluation.datasets.small_tree import tree_of

TRAIN, TEST = 150, 25  # six and one image of each class


def run(*arguments, codes=(0,)):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in codes, done.output
    return done.stdout


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    """A release of 2008 made of phantoms, its training images indexed."""
    root = tmp_path_factory.mktemp("irma")
    drawn = {"train": range(TRAIN), "test": range(TRAIN, TRAIN + TEST)}
    truth = {}
    for split, numbers in drawn.items():
        (root / split).mkdir()
        for number in numbers:
            phantom = phantoms.draw_phantom(number, seed=5, size=64)
            truth[number] = phantom.code
            assert cv2.imwrite(str(root / split / f"{number}.png"), phantom.pixels)
    lines = "".join(f"  {number} {code}\n" for number, code in truth.items())
    (root / "ImageCLEF2008med_codes.txt").write_text(lines)
    (root / "tree.txt").write_text(tree_of(sorted(set(truth.values()))))
    for split in drawn:
        run("irma", "manifest", root, root / f"{split}.csv", "--split", split)
    run(
        "index",
        root / "train",
        "--collection",
        root / "c",
        "--labels",
        root / "train.csv",
        "--jobs",
        2,
        "--profile",
        "huang2012",
    )
    return root


def submit(root, *more, queries="test.csv"):
    options = {"--collection": root / "c", "--tree": root / "tree.txt", "--out": root / "run.txt"}
    default = [part for option, value in options.items() if option not in more for part in (option, value)]
    return run("irma", "answer", *default, "--queries", root / queries, "--sample", 60, "-k", 10, *more)


def lines(root):
    return [line.split() for line in (root / "run.txt").read_text().splitlines()]


@pytest.fixture(scope="module")
def plain(benchmark):
    """A run without re-ranking: its facts and its lines."""
    facts = json.loads(submit(benchmark, "--rerank", "none", "--format", "json"))
    return facts, lines(benchmark)


@pytest.mark.parametrize("rerank", ["none", "eprf"])
def test_better_than_every_trivial_answer(benchmark, plain, rerank):
    facts, run_lines = plain
    if rerank != "none":
        facts = json.loads(submit(benchmark, "--rerank", rerank, "--format", "json"))
        run_lines = lines(benchmark)
    measured = facts["measured"]
    assert (measured["images"], measured["unanswered"], facts["chosen_on"]) == (TEST, 0, 60)
    assert facts["neighbours"] <= 10
    assert measured["error"] < 0.5 * min(measured["baselines"].values())
    assert facts["estimated_normalised"] == pytest.approx(measured["normalised"], abs=0.1)
    assert [name for name, _ in run_lines] == [str(n) for n in range(TRAIN, TRAIN + TEST)]


def test_the_run_scores_as_was_told(benchmark, plain, tmp_path):
    facts, run_lines = plain
    (tmp_path / "run.txt").write_text("".join(f"{name} {code}\n" for name, code in run_lines))
    arguments = ["--tree", benchmark / "tree.txt", "--truth", benchmark / "test.csv"]
    arguments += ["--train", benchmark / "train.csv", "--run", tmp_path / "run.txt", "--format", "json"]
    scored = json.loads(run("irma", "score", *arguments))
    assert scored["error"] == pytest.approx(facts["measured"]["error"])
    assert scored["baselines"] == pytest.approx(facts["measured"]["baselines"])


def test_the_same_question_has_the_same_answer(benchmark, plain):
    submit(benchmark, "--rerank", "none")
    assert lines(benchmark) == plain[1]


def test_a_folder_of_images_and_one_that_is_none(benchmark, tmp_path):
    pixels = phantoms.draw_phantom(3, seed=9, size=64).pixels
    cv2.imwrite(str(tmp_path / "0007.png"), pixels)
    (tmp_path / "8.png").write_text("no picture")
    shown = submit(benchmark, "--rule", "2007", queries=tmp_path)
    assert "expected, from the training images" in shown
    assert lines(benchmark)[0][0] == "7"
    assert lines(benchmark)[0][1] != "****-***-***-***"
    assert lines(benchmark)[1] == ["8", "****-***-***-***"]


def test_training_images_do_not_answer_for_themselves(benchmark):
    """Queried with the training images, the copy in the collection is left out: the error stays what it was."""
    facts = json.loads(submit(benchmark, "--rerank", "none", "--format", "json", queries="train.csv"))
    assert 0 < facts["measured"]["normalised"] < 2 * facts["estimated_normalised"] + 0.02


def test_images_of_the_same_patient_do_not_vote(benchmark, tmp_path):
    for split, patients in (("train", ("a",)), ("test", ("a", "b"))):
        with (benchmark / f"{split}.csv").open() as file:
            rows = list(csv.DictReader(file))
        with (tmp_path / f"{split}.csv").open("w") as file:
            file.write("path,irma_code,patient\n")
            file.writelines(
                f"{benchmark / row['path']},{row['irma_code']},{patients[place % len(patients)]}\n"
                for place, row in enumerate(rows)
            )
    labels = tmp_path / "train.csv"
    run(
        "index",
        benchmark / "train",
        "--collection",
        tmp_path / "c",
        "--labels",
        labels,
        "--profile",
        "huang2012",
        "--jobs",
        "1",
    )
    submit(benchmark, "--collection", tmp_path / "c", "--rerank", "none", queries=tmp_path / "test.csv")
    unknown = [code == "****-***-***-***" for _, code in lines(benchmark)]
    assert unknown == [place % 2 == 0 for place in range(TEST)]


def test_classes(benchmark, tmp_path):
    with (benchmark / "test.csv").open() as file:
        rows = list(csv.DictReader(file))
    numbers = {code: n for n, code in enumerate(sorted({row["irma_code"] for row in rows}), start=1)}
    for split in ("train", "test"):
        with (benchmark / f"{split}.csv").open() as file:
            rows = list(csv.DictReader(file))
        with (benchmark / f"{split}_classes.csv").open("w") as file:
            file.write("path,irma_class\n")
            file.writelines(f"{row['path']},{numbers.get(row['irma_code'], 116)}\n" for row in rows)
    labels = benchmark / "train_classes.csv"
    run(
        "index",
        benchmark / "train",
        "--collection",
        tmp_path / "c",
        "--labels",
        labels,
        "--profile",
        "huang2012",
        "--jobs",
        "1",
    )
    arguments = [
        "--queries",
        benchmark / "test_classes.csv",
        "--out",
        tmp_path / "run.txt",
        "--rerank",
        "none",
    ]
    asked = ["irma", "answer", "--collection", tmp_path / "c", "--answers", "class", *arguments]
    facts = json.loads(run(*asked, "--format", "json"))
    assert facts["measured"]["images"] == TEST
    assert facts["measured"]["error_rate"] < 0.5
    confidences = np.array(
        [line.split()[1:] for line in (tmp_path / "run.txt").read_text().splitlines()], float
    )
    np.testing.assert_allclose(confidences.sum(axis=1), 1, atol=1e-4)
    nearest = json.loads(run(*asked, "--k", 1, "--format", "json"))
    assert (nearest["neighbours"], nearest["threshold"]) == (1, 0.5)
    assert "error rate" in run(*asked)


def test_wrong_use(benchmark, tmp_path):
    with pytest.raises(InvalidInput, match="0 images to learn from by the label nothing"):
        submit(benchmark, "--label", "nothing")
    with pytest.raises(InvalidInput, match=r"label split, whose .* no IRMA code, .*'train'"):
        submit(benchmark, "--label", "split")
    with pytest.raises(InvalidInput, match="0 images to learn from"):
        submit(benchmark, "--where", "split=test")
    with pytest.raises(NotFound, match="no folder or manifest"):
        submit(benchmark, queries="missing")
    with pytest.raises(InvalidInput, match="contains no image"):
        submit(benchmark, queries=tmp_path)
    (tmp_path / "list.csv").write_text("file\n1.png\n")
    with pytest.raises(InvalidInput, match="no column `path`"):
        submit(benchmark, queries=tmp_path / "list.csv")
    (tmp_path / "list.csv").write_text("path\na/1.png\nb/001.png\n")
    with pytest.raises(InvalidInput, match="two images have the id 1"):
        submit(benchmark, queries=tmp_path / "list.csv")
    (tmp_path / "list.csv").write_text("path,irma_code\na/1.png,1121\n")
    with pytest.raises(InvalidInput, match="true label '1121' of image 1"):
        submit(benchmark, queries=tmp_path / "list.csv")
    with pytest.raises(InvalidInput, match="name it with --tree"):
        run("irma", "answer", "--collection", benchmark / "c", "--queries", benchmark, "--out", "x")
    with pytest.raises(InvalidInput, match=r"run\.txt cannot be written: there is no folder"):
        submit(benchmark, "--out", tmp_path / "nowhere" / "run.txt")
    (benchmark / "small.txt").write_text(tree_of(["1121-120-942-700"]))
    with pytest.raises(InvalidInput, match=r"small\.txt has no "):
        submit(benchmark, "--tree", benchmark / "small.txt")
