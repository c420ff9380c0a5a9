"""TREC files that every program reads alike."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from cbir.errors import InvalidInput
from cbir.evaluation.run_files import RunFile, qrel_lines, run_lines, strictly_falling, trec_word
from cbir.system.files import atomic_text

floats = st.floats(-(2.0**100), 2.0**100, width=32)


@given(hn.arrays(np.float32, st.integers(0, 50), elements=floats))
def test_scores_fall_strictly_and_no_further_than_needed(scores):
    scores = -np.sort(-scores)
    falling = strictly_falling(scores)
    assert falling.dtype == np.float32
    assert (np.diff(falling) < 0).all()
    expected = []  # one at a time
    for score in scores:
        below = np.nextafter(expected[-1], np.float32(-np.inf)) if expected else score
        expected.append(min(score, below))
    np.testing.assert_array_equal(falling, np.array(expected, np.float32))


@given(st.lists(floats, unique=True))
def test_scores_that_fall_are_only_rounded(scores):
    scores = np.array(sorted(scores, reverse=True), np.float32)
    np.testing.assert_array_equal(strictly_falling(scores), scores)


def test_a_saturated_score_keeps_its_order_in_trec_eval():
    images = [f"image{9 - number}" for number in range(10)]
    lines = run_lines("q", images, np.ones(10), "eprf")
    run = pytrec_eval.parse_run(lines)
    for place, image in enumerate(images):
        found = pytrec_eval.RelevanceEvaluator({"q": {image: 1}}, {"recip_rank"}).evaluate(run)
        assert found["q"]["recip_rank"] == pytest.approx(1 / (place + 1))


def test_lines():
    assert run_lines("my query", ["a", "b"], np.array([0.5, 0.25]), "eprf:P=9") == [
        "my_query Q0 a 1 0.5 eprf:P=9",
        "my_query Q0 b 2 0.25 eprf:P=9",
    ]
    assert run_lines("q", [], np.array([]), "none") == []
    assert qrel_lines("q", ["a", "b"], [4, 1]) == ["q 0 a 4", "q 0 b 1"]
    assert trec_word(" a  b\tc ") == "a_b_c"


def test_what_was_written_is_read(tmp_path):
    scores = np.random.default_rng(0).random(50)
    scores = -np.sort(-scores)
    path = tmp_path / "a.run"
    images = [f"i{number}" for number in range(50)]
    path.write_text(
        "\n".join(run_lines("p", images, scores, "x") + run_lines("q", images[:1], scores[:1], "x"))
    )
    run = RunFile(path)
    assert run.queries == ["p", "q"]
    assert (run.answers("p").images, run.answers("q").images) == (images, ["i0"])
    np.testing.assert_array_equal(run.answers("p").scores.astype(np.float32), strictly_falling(scores))


def test_scores_decide_and_equal_ones_stay_as_they_are_in_the_file(tmp_path):
    """Whatever the ranks are."""
    path = tmp_path / "a.run"
    scores = {"e": 0.5, "b": 0.5, "a": 0.75, "d": 0.5, "f": -1.0, "c": 0.75}
    lines = [f"q Q0 {image} {rank} {score} x\n" for rank, (image, score) in enumerate(scores.items())]
    path.write_text("".join(lines))
    answers = RunFile(path).answers("q")
    assert answers.images == ["a", "c", "e", "b", "d", "f"]
    assert answers.scores.tolist() == [0.75, 0.75, 0.5, 0.5, 0.5, -1.0]


@pytest.mark.parametrize("line", ["q Q0 a 1 0.5", "q Q0 a 1 high x", ""])
def test_a_damaged_run_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "a.run"
    path.write_text(f"q Q0 a 1 0.5 x\n{line}\n")
    with pytest.raises(InvalidInput, match=r"a\.run"):
        RunFile(path).answers("q")


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"

    def interrupted():
        with atomic_text(path) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with atomic_text(path) as file:
        file.write("whole")
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]
