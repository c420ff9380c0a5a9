"""Options of rankers and baselines: which one takes which."""

import inspect
import json
from dataclasses import fields

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.learn import grading
from cbir.learn.commands.evaluate_graders import evaluate_graders
from cbir.learn.commands.grade_commands import fit_collection_grader
from cbir.learn.grading import baselines
from cbir.learn.grading.interpolation import GradeInterpolator
from cbir.learn.grading.ranker_options import RankerOptions, parse_list_size
from cbir.learn.grading.stored_grading import read_stored_grading, store_grading
from tests.cbir.learn.grading.cases import drawn

S_NDCG = {
    "form": "paper",
    "function": "exponential",
    "alpha": 0.002,
    "start": "zero",
    "steps": 3,
    "rate": 0.01,
}


@pytest.mark.parametrize(
    ("names", "given", "params"),
    [
        (["s-ndcg"], {}, [{"kernel": "auto"}]),
        (
            ["s-ndcg"],
            S_NDCG | {"kernel": "linear", "training_list_size": "20"},
            [S_NDCG | {"kernel": "linear", "list_size": 20}],
        ),
        (
            ["s-ndcg"],
            {"steps": 0, "training_list_size": "all"},
            [{"kernel": "auto", "steps": 0, "list_size": None}],
        ),
        (["ranking-svm"], {"c": 0.5, "loss": "hinge"}, [{"kernel": "auto", "C": 0.5, "loss": "hinge"}]),
        (["adarank"], {"training_list_size": "50"}, [{"list_size": 50}]),
        (["rankboost"], {}, [{}]),
        (["severity"], {}, [{}]),
        (["regression"], {}, [{"kernel": "auto"}]),
        (["regression"], {"kernel": "rbf", "c": 2.0}, [{"C": 2.0}]),
        (["ordinal"], {"kernel": "linear"}, [{}]),
        (["classification"], {"classifier": "lda"}, [{"classifier": "lda"}]),
        (["cnn"], {}, [{"encoder": "lite0-max"}]),
        (
            ["cnn"],
            {"encoder": "lite0-max", "fine_tune": 2, "epochs": 1, "mirror": True, "networks": 3, "side": 64},
            [{"encoder": "lite0-max", "blocks": 2, "epochs": 1, "mirror": True, "networks": 3}],
        ),
        (["cnn"], {"encoder": "none", "loss": "s-ndcg", "rate": 0.1}, [{"loss": "s-ndcg", "rate": 0.1}]),
        (
            ["ranking-svm", "ordinal", "adarank"],
            {"kernel": "linear", "c": 1.0},
            [{"kernel": "linear", "C": 1.0}, {}, {}],
        ),
    ],
)
def test_each_takes_its_own(names, given, params):
    built = RankerOptions(**given).build_all(names)
    assert list(built.values()) == params
    for name, expected in built.items():
        make = baselines.baseline_grader if name in baselines.names() else grading.make_ranker
        assert expected.items() <= make(name, **expected).get_params().items()


@pytest.mark.parametrize(
    ("names", "given", "why"),
    [
        (["adarank"], {"kernel": "linear"}, "adarank does not take --kernel; options: --training-list-size"),
        (["severity"], {"c": 1.0}, "severity does not take --c; options: none"),
        (["ranking-svm"], {"steps": 0, "form": "paper"}, "does not take --form, --steps"),
        (["s-ndcg", "ordinal"], {"mirror": True}, "s-ndcg, ordinal do not take --mirror"),
        (["regression"], {"c": 1.0}, "does not take --c"),
        (["cnn"], {"loss": "ranknet"}, "does not take --loss"),
        (["cnn"], {"encoder": "none", "window": "whole"}, "does not take --window"),
        (["cnn"], {"encoder": "none", "side": 64}, "does not take --side"),
        (["cnn"], {"encoder": "ct-volume"}, "not one of the encoders that can be trained"),
        (["cnn"], {"window": "left"}, "there is no window 'left'"),
        (["cnn"], {"window": "whole,centre"}, "--window names 2 windows for 1 of --networks"),
        (["cnn"], {"window": "whole,centre,upper", "networks": 2}, "names 3 windows for 2 of"),
        (["ranking-svm"], {"loss": "ranknet"}, "--loss of ranking-svm is one of squared-hinge, hinge"),
        (["cnn"], {"encoder": "none", "loss": "hinge"}, "--loss of cnn is one of ranknet"),
        (["s-ndcg"], {"training_list_size": "many"}, "--training-list-size many: must be a number"),
    ],
)
def test_others_are_refused(names, given, why):
    with pytest.raises(InvalidInput, match=why):
        RankerOptions(**given).build_all(names)


def test_the_commands_have_every_option_without_a_default_of_their_own():
    options = {field.name: field.default for field in fields(RankerOptions)}
    for command, missing in ((evaluate_graders, set()), (fit_collection_grader, {"classifier"})):
        parameters = inspect.signature(command).parameters
        shared = {name: parameters[name].default for name in options.keys() & parameters.keys()}
        assert options.keys() - shared.keys() == missing
        assert all(default == options[name] for name, default in shared.items())


def test_list_size():
    assert parse_list_size("all", "--list-size") is None
    assert parse_list_size("7", "--list-size") == 7
    with pytest.raises(InvalidInput, match="--list-size many"):
        parse_list_size("many", "--list-size")


@pytest.mark.parametrize(
    ("name", "options", "learned"),
    [("s-ndcg", ("start",), ("objective_",)), ("ranking-svm", ("loss",), ())],
)
def test_graders_without_the_newer_options_open(name, options, learned):
    X, y, patients = drawn(60)
    fitted = GradeInterpolator(grading.make_ranker(name, kernel="auto")).fit(X, y, patients)
    facts = {"profile_hash": "0" * 16, "column": "grade", "where": (), "images": 60, "patients": 30}
    stored = json.loads(store_grading(fitted, **facts, fitted="now").model_dump_json())
    for option in options:
        del stored["options"][option]
    for attribute in learned:
        del stored["learned"][attribute]
    again = read_stored_grading(json.dumps(stored), "grade").fitted_ranker()
    np.testing.assert_allclose(again.predict(X), fitted.ranker_.predict(X))
