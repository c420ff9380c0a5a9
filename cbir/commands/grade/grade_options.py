"""Options shared by the commands of `cbir grade`."""

from typing import Annotated, Literal

from typer import Option

from cbir.errors import InvalidInput

Column = Annotated[str, Option("--grade-column", help="Label with the grades.")]
SmoothingText = Annotated[
    str,
    Option(
        "--smoothing",
        help="thresholds: grades by thresholds on the scores of left-out images; else by the neighbours: graded "
        "images whose median grade replaces the grade of each, 1: none (eq. 10), auto: n / 16.",
    ),
]


Kernel = Annotated[
    Literal["auto", "linear", "rbf"],
    Option(
        "--kernel",
        help="Kernel of s-ndcg and ranking-svm. auto: principal components, linear or RBF, width and ridge tuned on "
        "left-out patients, for regression and ordinal too.",
    ),
]


def ranker_options(name: str, kernel: str) -> dict[str, str]:
    """Return the kernel as a parameter if the method `name` has one; raises InvalidInput for an unknown ranker."""
    from cbir import grading
    from cbir.grading import baselines

    if name in baselines.names():  # kernels of their own, unless tuned
        tunable = "kernel" in baselines.baseline_grader(name).get_params()
        return {"kernel": kernel} if tunable and kernel == "auto" else {}
    return {"kernel": kernel} if "kernel" in grading.make_ranker(name).get_params() else {}


def smoothing(text: str) -> int | Literal["auto", "thresholds"]:
    """Parse the option --smoothing; raises InvalidInput."""
    if text == "auto":
        return "auto"
    if text == "thresholds":
        return "thresholds"
    return _integer(text, "--smoothing", "an odd number, auto or thresholds")


def list_size(text: str) -> int | None:
    """Parse the option --list-size; raises InvalidInput."""
    return None if text == "all" else _integer(text, "--list-size", "a number of images or all")


def _integer(text: str, option: str, expected: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{option} {text}: must be {expected}") from None
