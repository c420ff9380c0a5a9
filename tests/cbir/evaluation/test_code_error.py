"""The hierarchical error against the published examples and against the formula written out."""

import csv
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.code_error import (
    ErrorRule,
    code_errors,
    compare_codes,
    prepare_truth,
    trivial_answers,
)
from cbir.evaluation.datasets.irma.codes import AXIS_SLICES, CodeTree, code_digits, parse_code
from cbir.evaluation.datasets.irma.label_files import read_answered_codes, read_true_codes
from tests.cbir.evaluation.datasets.small_tree import SMALL_TREE, published

EXAMPLES = [  # true code, answer, what the organisers' program gives
    ("1121-120-462-700", "1121-240-434-700", 0.3885941645),
    ("1121-120-451-700", "1121-230-921-700", 0.5),
    ("1121-4a0-515-700", "1121-210-333-700", 0.5),
    ("1121-120-956-700", "1123-129-700-400", 0.5273241117),
    ("1121-220-213-700", "1***-22*-***-70*", 0.1961683756),
    ("1121-230-462-700", "112*-***-***-700", 0.187638664),
    ("1121-230-916-700", "112*-2**-91*-700", 0.0461801989),
    ("1121-120-441-700", "1***-120-44*-70*", 0.1219599323),
    ("1121-220-454-700", "1121-220-454-7**", 0.0),
    ("1121-120-510-700", "1121-120-5**-***", 0.0608898659),
    ("1121-129-700-400", "1121-129-70*-40*", 0.0),
    ("1121-230-933-700", "11**-230-93*-***", 0.0781910185),
    ("1121-210-331-700", "1***-***-400-***", 0.452326751),
    ("1121-120-442-700", "112*-230-462-70*", 0.423969652),
    ("1121-117-731-443", "1121-11*-***-40*", 0.2928692699),
]
CODES = sorted({true for true, _, _ in EXAMPLES} | {"0000-000-000-000", "1121-120-200-700"})


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    path = tmp_path_factory.mktemp("tree") / "tree.txt"
    path.write_text(SMALL_TREE)
    return CodeTree.read(path)


def written_out(true, answer, tree, rule):
    """The published formula, digit after digit."""
    branching, got, worst, axes = tree.branching(true), 0.0, 0.0, 0.0
    for place in AXIS_SLICES:
        delta, axis_got, axis_worst = 0.0, 0.0, 0.0
        pairs = list(zip(code_digits(true)[place], code_digits(answer)[place], branching[place], strict=True))
        for level, (right, given_, children) in enumerate(pairs, start=1):
            if delta == 0 and given_ != right:
                delta = 0.5 if given_ == "*" else 1.0
            free = rule is ErrorRule.of_2009 and delta == 0.5 and right == "0"
            axis_got += 0.0 if free else delta / children / level
            axis_worst += 1 / children / level
        got, worst, axes = got + axis_got, worst + axis_worst, axes + axis_got / axis_worst / 4
    return axes if rule is ErrorRule.of_2009 else got / worst


@pytest.mark.parametrize(("true", "answer", "expected"), EXAMPLES)
def test_reference_values(tree, true, answer, expected):
    assert code_errors(prepare_truth([true], tree, ErrorRule.of_2009), [parse_code(answer, wildcards=True)])[
        0
    ] == pytest.approx(expected, abs=1e-9)


answers = st.tuples(
    *[st.text("0123459a*", min_size=size, max_size=size) for size in (4, 3, 3, 3)]
) | st.sampled_from(CODES).map(lambda code: tuple(code.split("-")))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CODES), answers), max_size=8), st.sampled_from(ErrorRule))
def test_like_the_formula_written_out(tree, pairs, rule):
    given_ = [parse_code("-".join(axes), wildcards=True) for _, axes in pairs]
    found = code_errors(prepare_truth([true for true, _ in pairs], tree, rule), given_)
    expected = [
        written_out(true, answer, tree, rule) for (true, _), answer in zip(pairs, given_, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert ((found >= 0) & (found <= 1 + 1e-12)).all()


def test_right_wrong_and_unsure(tree):
    for rule in ErrorRule:
        truth = prepare_truth(["1121-120-942-700", "1121-120-942-700"], tree, rule)
        assert code_errors(truth, ["1121-120-942-700", "2222-222-222-222"]).tolist() == [0, pytest.approx(1)]


def test_a_star_for_a_true_zero_costs_by_rule(tree):
    answer = ["1121-12*-942-70*"]
    assert code_errors(prepare_truth(["1121-120-942-700"], tree, ErrorRule.of_2009), answer)[0] == 0
    assert code_errors(prepare_truth(["1121-120-942-700"], tree, ErrorRule.of_2007), answer)[0] > 0
    stars = prepare_truth(["1121-120-942-700"], tree, ErrorRule.of_2007)
    assert code_errors(stars, ["****-***-***-***"])[0] == pytest.approx(0.5)


def test_clutter_scores_nothing(tree):
    truth = prepare_truth(["C", "1121-120-942-700"], tree, ErrorRule.of_2009)
    assert code_errors(truth, ["2222-222-222-222"] * 2).tolist() == [0, pytest.approx(1)]


def test_nothing_to_score(tree):
    assert code_errors(prepare_truth([], tree, ErrorRule.of_2009), []).shape == (0,)


def test_a_true_code_that_the_tree_does_not_have(tree):
    with pytest.raises(InvalidInput, match=r"1121-120-999-700.*anatomy 99.*digit 2"):
        prepare_truth(["1121-120-999-700"], tree, ErrorRule.of_2009)


def test_baselines_by_trying_everything(tree):
    codes = random.Random(1).choices(CODES, k=60)
    for rule in ErrorRule:
        found = trivial_answers(codes, tree, rule, training=["1121-120-442-700"] * 2 + ["1121-120-510-700"])

        def total(answer, rule=rule):
            return sum(written_out(code, answer, tree, rule) for code in codes)

        assert found["all_stars"].error == pytest.approx(total("****-***-***-***"))
        assert found["best_constant"].error == pytest.approx(min(map(total, CODES)))
        assert found["majority_class"].answer == "1121-120-442-700"
        assert found["majority_class"].error == pytest.approx(total("1121-120-442-700"))
        best = found["best_constant_with_stars"]
        assert best.error == pytest.approx(total(best.answer))
        assert best.error <= min(found["all_stars"].error, found["best_constant"].error) + 1e-9
        one_axis_left_open = [
            "-".join("*" * len(part) if place == axis else part for place, part in enumerate(code.split("-")))
            for code in CODES
            for axis in range(4)
        ]
        assert best.error <= min(map(total, one_axis_left_open)) + 1e-9


def test_the_published_examples():
    folder = published()
    tree = CodeTree.read(folder / "code_tree_2008.txt")
    with (folder / "error_examples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 50
    truth = prepare_truth([parse_code(row["true_code"]) for row in rows], tree, ErrorRule.of_2009)
    found = code_errors(truth, [parse_code(row["pred_code"], wildcards=True) for row in rows])
    np.testing.assert_allclose(found, [float(row["error_2008"]) for row in rows], atol=1e-9)


def test_the_published_trivial_answers():
    folder = published()
    with (folder / "irma2009_class_counts.csv").open() as file:
        rows = list(csv.DictReader(file))
    train, test = ([row["code2008"] for row in rows for _ in range(int(row[of]))] for of in ("train", "test"))
    tree = CodeTree.read(folder / "code_tree_2008.txt")
    found = {name: line.error for name, line in trivial_answers(test, tree, ErrorRule.of_2009, train).items()}
    assert len(test) == 1732
    assert found == {
        "all_stars": pytest.approx(603.77, abs=0.005),
        "best_constant": pytest.approx(644.00, abs=0.005),
        "best_constant_with_stars": pytest.approx(388.72, abs=0.005),
        "majority_class": pytest.approx(1076.77, abs=0.005),
    }


def test_unanswered_images_are_all_wrong_and_unknown_ones_do_not_count(tree):
    truth = {"1": "1121-120-942-700", "2": "1121-120-942-700", "3": "C"}
    found = compare_codes(truth, {"1": "1121-120-942-700", "9": "2222-222-222-222"}, tree, ErrorRule.of_2009)
    assert found.by_image == {"1": 0.0, "2": 1.0, "3": 0.0}
    facts = found.facts()
    assert (facts["images"], facts["error"], facts["unanswered"], facts["unknown"]) == (3, 1.0, 2, 1)
    assert (facts["clutter"], facts["normalised"]) == (1, pytest.approx(1 / 3))
    assert facts["majority_class_of"] == "truth"


TRUTHS = {
    "lines": "  00000001 1121-120-942-700\n 2 1121210333700\t\n",
    "csv": "image_id,code\r\n1,1121-120-942-700\r\n2,1121-210-333-700\r\n3,\r\n",
    "manifest": "path,irma_id,label,irma_code\na.png,1,x,1121-120-942-700\nb.png,2,x,1121-210-333-700\n",
    "2009": "image_id;a;b;c;d;e;f;05_class;g;06_class;07_irma_code;08_irma_code\n"
    "1;;;;;;;1;;1;\\N;1121-120-942-700\n2;;;;;;;2;;2;\\N;1121-210-333-700\n3;;;;;;;2;;2;\\N;\\N\n",
    "2009 unnamed": "x;a;b;c;d;e;f;h;g;i;j;k\n1;;;;;;;1;;1;\\N;1121-120-942-700\n2;;;;;;;2;;2;\\N;1121-210-333-700\n",
}


@pytest.mark.parametrize("form", TRUTHS)
def test_forms_of_truth(tmp_path, form):
    (tmp_path / "truth").write_text(TRUTHS[form])
    found = read_true_codes(tmp_path / "truth")
    assert found.by_image == {"1": "1121-120-942-700", "2": "1121-210-333-700"}
    assert found.left_out == (1 if form in ("csv", "2009") else 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 1121-120-942-700\n2 1121\n\n3 x y\n", "line 2: .*1121.*line 4: "),
        ("1 1121-120-942-7**\n01 1121-120-942-700\n", "line 2: image 1 is repeated"),
        ("1 C\n", "line 1: 'C' is not an answer"),
        ("", "contains no image"),
        ("\n".join(f"{n} bad" for n in range(9)), "and 4 more lines"),
    ],
)
def test_damaged_runs_are_named_by_line(tmp_path, text, told):
    (tmp_path / "run").write_text(text)
    with pytest.raises(InvalidInput, match=told):
        read_answered_codes(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 1121-120-942-7**\n", "only an answer may"),
        ("a,b\n1,2\n", "needs a column"),
        ("id,code\n1," + "1" * 200_000, "cannot be read as csv"),
        ("id,code\n1,1121\n", "line 2: '1121'"),
        ("image_id;08_irma_code\n1;1121\n", "no code of the labelling 2008: 1"),
    ],
)
def test_damaged_truth(tmp_path, text, told):
    (tmp_path / "truth").write_text(text)
    with pytest.raises(InvalidInput, match=told):
        read_true_codes(tmp_path / "truth")


def command(folder, *more, code=0):
    files = {"tree": SMALL_TREE, "truth": TRUTHS["csv"], "run": "1 1121-120-94*-700\n7 1121-120-942-700\n"}
    arguments = ["irma", "score"]
    for name, text in files.items():
        (folder / name).write_text(text)
        if f"--{name}" not in more:
            arguments += [f"--{name}", str(folder / name)]
    done = CliRunner().invoke(app, arguments + [str(argument) for argument in more])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command(tmp_path, tree):
    facts = json.loads(command(tmp_path, "--format", "json", "--per-image", tmp_path / "errors.csv"))
    one = written_out("1121-120-942-700", "1121-120-94*-700", tree, ErrorRule.of_2009)
    assert (facts["rule"], facts["images"], facts["without_true_code"]) == ("2009", 2, 1)
    assert facts["error"] == pytest.approx(1 + one, abs=1e-12)
    assert facts["normalised"] == pytest.approx((1 + one) / 2)
    assert set(facts["baselines"]) == {
        "all_stars",
        "best_constant",
        "best_constant_with_stars",
        "majority_class",
    }
    with (tmp_path / "errors.csv").open() as file:
        rows = [(row["image_id"], float(row["error"])) for row in csv.DictReader(file)]
    assert rows == [("1", pytest.approx(one)), ("2", 1.0)]


def test_errors_of_images_stand_under_the_ids_of_the_truth(tmp_path, tree):
    truth = tmp_path / "padded"
    truth.write_text("00000001 1121-120-942-700\n2 1121-120-942-700\n")
    command(tmp_path, "--truth", truth, "--per-image", tmp_path / "errors.csv")
    rows = [line.partition(",")[0] for line in (tmp_path / "errors.csv").read_text().splitlines()]
    assert rows == ["image_id", "00000001", "2"]


def test_errors_of_images_are_no_formulas(tmp_path, tree):
    for name in ("true", "answers"):
        (tmp_path / name).write_text("=1+1 1121-120-942-700\n-2 1121-120-942-700\n")
    command(
        tmp_path, "--truth", tmp_path / "true", "--run", tmp_path / "answers",
        "--per-image", tmp_path / "errors.csv",
    )  # fmt: skip
    rows = [line.partition(",")[0] for line in (tmp_path / "errors.csv").read_text().splitlines()]
    assert rows == ["image_id", "'=1+1", "-2"]


@pytest.mark.parametrize(
    ("truth", "answers"),
    [
        ("1 1121-120-942-700\r\n", "\ufeff1 1121-120-942-700\r\n".encode()),
        ("1 1121-120-942-700", b"00001\t1121120942700"),
        ("1 1121-120-942-700\n", "1 1121-120-942-700\r".encode("utf-16")),
        ("1 1121-120-942-700\n", "1 1121-120-942-700\nK\xf6ln 1121-120-942-700\n".encode("latin-1")),
    ],
)
def test_files_as_they_come(tmp_path, tree, truth, answers):
    (tmp_path / "t").write_text(truth, newline="")
    (tmp_path / "r").write_bytes(answers)
    found = json.loads(
        command(tmp_path, "--truth", tmp_path / "t", "--run", tmp_path / "r", "--format", "json")
    )
    assert (found["images"], found["error"], found["unanswered"]) == (1, 0.0, 0)


def test_the_command_in_words(tmp_path):
    (tmp_path / "train").write_text("5 1121-120-442-700\n")
    shown = command(tmp_path, "--rule", "2007", "--train", tmp_path / "train")
    assert "rule            2007" in shown
    assert "1121-120-442-700, majority of the training" in shown.replace("  ", " ")
    assert "1 images have no answer and count as wrong on every axis" in shown
