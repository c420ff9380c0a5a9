"""Fusion of runs against its definitions, and run files from elsewhere in an evaluation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.run_files import (
    QueryAnswers,
    RunFile,
    fuse_answers,
    min_max,
    parse_run_weights,
    reciprocal_ranks,
    z_scores,
)

lists = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(-5, 5)), max_size=8, unique_by=lambda pair: pair[0]
).map(lambda pairs: QueryAnswers(*unzip(sorted(pairs, key=lambda pair: -pair[1]))))


def unzip(pairs):
    return [name for name, _ in pairs], np.array([score for _, score in pairs], float)


def answers(text):
    """`a3 b1` -> images a, b with scores 3, 1."""
    return QueryAnswers(*unzip([(word[0], float(word[1:])) for word in text.split()]))


def by_definition(runs, weights, scale):
    """Sum over the runs, image by image."""
    images = {image for run in runs for image in run.images}
    total = dict.fromkeys(images, 0.0)
    for run, weight in zip(runs, weights, strict=True):
        if not run.images:
            continue
        values = [float(score) for score in run.scores]
        mean, low, high = sum(values) / len(values), min(values), max(values)
        deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
        for image in images:
            value = values[run.images.index(image)] if image in run.images else low
            if scale == "rrf":
                total[image] += weight / (60 + run.images.index(image) + 1) if image in run.images else 0.0
            elif scale == "min-max":
                total[image] += weight * ((value - low) / (high - low) if high > low else 1.0)
            else:
                total[image] += weight * ((value - mean) / deviation if deviation else 0.0)
    return total


@given(st.lists(lists, min_size=2, max_size=3), st.sampled_from(["rrf", "min-max", "z-score"]))
def test_sums_are_those_of_the_definition(runs, scale):
    weights = [1.0, 2.5, 0.5][: len(runs)]
    score = {"rrf": reciprocal_ranks, "min-max": min_max, "z-score": z_scores}[scale]
    fused = fuse_answers(runs, weights, score, missing=scale != "rrf")
    expected = by_definition(runs, weights, scale)
    assert set(fused.images) == set(expected)
    np.testing.assert_allclose(fused.scores, [expected[image] for image in fused.images], atol=1e-9)
    assert (np.diff(fused.scores) <= 0).all()


def test_an_image_high_in_both_wins():
    runs = [answers("a9 b8 c7"), answers("d9 b8 a1")]
    assert fuse_answers(runs, [1, 1], reciprocal_ranks, missing=False).images[0] == "a"
    assert fuse_answers(runs, [1, 1], min_max, missing=True).images == ["b", "a", "d", "c"]
    assert fuse_answers(runs, [1, 5], min_max, missing=True).images[0] == "d"


def test_equal_sums_keep_the_order_of_the_first_run():
    assert fuse_answers([answers("a2 b1"), answers("b2 a1")], [1, 1], reciprocal_ranks, False).images == [
        "a",
        "b",
    ]
    assert fuse_answers([answers(""), answers("")], [1, 1], min_max, True).images == []


@pytest.mark.parametrize("text", ["1", "1,2,3", "1,x", "1,0", "1,-2", "1,inf", "nan,1", ""])
def test_weights_that_do_not_fit(text):
    with pytest.raises(InvalidInput, match="--weights"):
        parse_run_weights(text, 2)


def test_weights():
    assert parse_run_weights("2, 0.5", 2) == [2.0, 0.5]
    assert parse_run_weights(None, 3) == [1.0, 1.0, 1.0]


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_scores_order_a_run_file_not_its_ranks(tmp_path):
    path = write(tmp_path / "r", "q Q0 a 1 0.5 x", "q Q0 b 2 0.75 x", "q Q0 c 3 0.5 x", "p Q0 a 1 1e-3 x")
    run = RunFile(path)
    assert run.queries == ["q", "p"]
    assert run.answers("q").images == ["b", "a", "c"]
    assert run.answers("p").scores.tolist() == [0.001]
    assert run.answers("unknown").images == []


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((), "no answers"),
        (("q Q0 a 1 0.5",), "line 1 is not of the form"),
        (
            ("q Q0 a 1 0.5 x", "p Q0 a 1 0.5 x", "q Q0 b 1 0.5 x"),
            "line 3: the lines of query q are not adjacent",
        ),
        (("q Q0 a 1 0.5 x", "q Q0 a 2 0.4 x"), "image a answers query q more than once"),
        (("q Q0 a 1 nan x",), "not a finite number"),
        (("q Q0 a 1 high x",), "not a finite number"),
    ],
)
def test_damaged_run_files(tmp_path, lines, reason):
    with pytest.raises(InvalidInput, match=reason):
        RunFile(write(tmp_path / "run", *lines)).answers("q")
    (tmp_path / "binary").write_bytes(b"\xff\xfe q")
    with pytest.raises(InvalidInput, match="not of the form"):
        RunFile(tmp_path / "binary")
    with pytest.raises(InvalidInput, match="cannot be read"):
        RunFile(tmp_path / "missing")


def fuse(*arguments):
    done = CliRunner().invoke(app, ["evaluate", "fuse", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_fuses_query_by_query(tmp_path):
    first = write(tmp_path / "a.run", "q Q0 a 1 9 x", "q Q0 b 2 8 x", "p Q0 c 1 1 x")
    second = write(tmp_path / "b.run", "q Q0 b 1 3 y", "q Q0 d 2 1 y")
    output = fuse(first, second, "--out", tmp_path / "both.run")
    assert "2 queries of 2 runs" in output
    rows = [line.split() for line in (tmp_path / "both.run").read_text().splitlines()]
    assert [(row[0], row[2], row[5]) for row in rows] == [
        ("q", "b", "both"), ("q", "a", "both"), ("q", "d", "both"), ("p", "c", "both"),
    ]  # fmt: skip
    assert float(rows[0][4]) == pytest.approx(1 / 62 + 1 / 61)
    fuse(
        first, second, "--out", tmp_path / "top.run", "--method", "weighted", "--weights", "5,1", "--depth", 1
    )
    rows = [line.split() for line in (tmp_path / "top.run").read_text().splitlines()]
    assert [(row[0], row[2], float(row[4])) for row in rows] == [("q", "a", 5.0), ("p", "c", 5.0)]
    fuse(first, second, "--out", tmp_path / "z.run", "--method", "weighted", "--scale", "z-score")
    rows = [line.split() for line in (tmp_path / "z.run").read_text().splitlines()]
    # d is not in the first run: its score there is that of b, the last
    assert [(row[0], row[2], float(row[4])) for row in rows] == [
        ("q", "a", 0.0), ("q", "b", pytest.approx(0)), ("q", "d", -2.0), ("p", "c", 0.0),
    ]  # fmt: skip


def test_wrong_use_leaves_nothing(tmp_path):
    first = write(tmp_path / "a.run", "q Q0 a 1 9 x")
    with pytest.raises(InvalidInput, match="at least two"):
        fuse(first, "--out", tmp_path / "out.run")
    with pytest.raises(InvalidInput, match="no folder"):
        fuse(first, first, "--out", tmp_path / "nowhere" / "out.run")
    with pytest.raises(InvalidInput, match="--scale is for --method weighted"):
        fuse(first, first, "--out", tmp_path / "out.run", "--scale", "z-score")
    with pytest.raises(InvalidInput, match="-k is for --method rrf"):
        fuse(first, first, "--out", tmp_path / "out.run", "--method", "weighted", "-k", "5")
    damaged = write(tmp_path / "b.run", "q Q0 a 1 nan x")
    with pytest.raises(InvalidInput, match="not a finite"):
        fuse(first, damaged, "--out", tmp_path / "out.run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.run", "b.run"]


@pytest.mark.parametrize("scores", [np.full(3, 0.1), np.empty(0), np.array([5e-324, 0.0])])
def test_z_scores_of_equal_scores_are_0(scores):
    assert z_scores(scores).tolist() == [0.0] * len(scores)


def test_scores_of_no_answers():
    assert min_max(np.empty(0)).tolist() == []
