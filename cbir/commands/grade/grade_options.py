"""Options shared by the commands of `cbir grade`."""

from typing import Annotated, Any, Literal

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


CnnEncoder = Annotated[
    str,
    Option(
        "--encoder",
        help="For cnn: built-in encoder whose last blocks are trained; none: a small network from random weights.",
    ),
]
FineTune = Annotated[int, Option(min=1, max=100, help="For cnn: last blocks of the encoder to train.")]
Epochs = Annotated[int, Option(min=1, max=1000, help="For cnn: passes through the images.")]
Mirror = Annotated[
    bool, Option("--mirror", help="For cnn: learn from mirror images too, and average over both.")
]
PictureWindow = Annotated[
    str,
    Option(
        "--window",
        help="For cnn: part of the images that the network sees: whole, middle-rows, middle-columns, centre, upper, "
        "lower, or several with commas, one for each network in turn; auto: the parts that grade left-out patients "
        "best before any training.",
    ),
]
Networks = Annotated[
    int,
    Option(min=1, max=20, help="For cnn: networks whose mean is the score, each with a seed of its own."),
]
Side = Annotated[
    int,
    Option(
        min=32,
        max=2048,
        help="For cnn with an encoder: side in pixels of the pictures that windows are cut from.",
    ),
]


def network_options(
    encoder: str, fine_tune: int, epochs: int, mirror: bool, window: str, networks: int
) -> dict[str, Any]:
    """Return the parameters of the ranker cnn.

    Parameters
    ----------
    encoder : str
        "none" for the small network.
    fine_tune, epochs, mirror, window, networks
        As the options.

    Raises
    ------
    InvalidInput
        If the encoder cannot be trained, or there is no such window.
    """
    if encoder == "none":
        return {"mirror": mirror}
    from cbir.encoders.built_in import check_trainable_encoder
    from cbir.grading.image_window import parse_windows

    check_trainable_encoder(encoder)
    parse_windows(window)
    return {
        "encoder": encoder,
        "blocks": fine_tune,
        "epochs": epochs,
        "mirror": mirror,
        "window": window,
        "networks": networks,
    }


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
