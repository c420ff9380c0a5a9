"""Groups of options that commands share: of rankers that grade, and of losses."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal, get_type_hints

from typer import Option

from cbir.search import command_options as options

Column = Annotated[str, Option("--grade-column", help="Label with the grades.")]
SmoothingText = Annotated[
    str | None,
    Option(
        "--smoothing",
        help="thresholds, the default: grades by thresholds on the scores of left-out images; else by the "
        "neighbours: graded images whose median grade replaces the grade of each, 1: none (eq. 10), auto: n / 16. "
        "Not for classification and cnn with an encoder.",
    ),
]


@dataclass(frozen=True)
class RankerChoices:
    """Options of rankers and baselines; None is the default of the ranker, for the kernel "auto"."""

    kernel: Annotated[
        Literal["auto", "linear", "rbf"] | None,
        Option(
            help="Kernel of s-ndcg and ranking-svm. auto, the default: principal components, linear or RBF, width "
            "and ridge tuned on left-out patients, for regression and ordinal too.",
            hidden=True,
        ),
    ] = None
    form: Annotated[
        Literal["sigmoid", "paper"] | None,
        Option(
            help="For s-ndcg: smooth positions between 1 and n (default), or as printed, without decorrelation.",
            hidden=True,
        ),
    ] = None
    function: Annotated[
        Literal["linear", "exponential"] | None,
        Option(help="For s-ndcg: ranking function, linear by default.", hidden=True),
    ] = None
    alpha: Annotated[
        float | None,
        Option(
            help="For s-ndcg: steepness of the positions; default 12, of the form paper 0.001.", hidden=True
        ),
    ] = None
    start: Annotated[
        Literal["regression", "zero"] | None,
        Option(
            help="For s-ndcg: start of the ascent, ridge regression on 2^grade - 1 (default) or zero.",
            hidden=True,
        ),
    ] = None
    steps: Annotated[
        int | None,
        Option(
            min=0, help="For s-ndcg: most steps of the ascent, default 30; 0: the start itself.", hidden=True
        ),
    ] = None
    rate: Annotated[
        float | None,
        Option(
            help="Length of a step of s-ndcg, default 0.05; learning rate of cnn without an encoder, 0.002.",
            hidden=True,
        ),
    ] = None
    c: Annotated[
        float | None,
        Option(
            "--c",
            help="C of ranking-svm, default 0.01; of regression with --kernel rbf or linear (an SVR), 1.",
            hidden=True,
        ),
    ] = None
    loss: Annotated[
        str | None,
        Option(
            help="For ranking-svm: squared-hinge (default) or hinge, as in the paper. For cnn without an encoder: "
            "ranknet (default), s-ndcg or sodeep-spearman.",
            hidden=True,
        ),
    ] = None
    classifier: Annotated[
        Literal["svm", "lda"] | None,
        Option(help="For classification: SVM (default) or linear discriminant analysis.", hidden=True),
    ] = None
    training_list_size: Annotated[
        str | None,
        Option(
            help="Images per list in training, or all: default 100 for s-ndcg and adarank, all for ranking-svm "
            "and rankboost.",
            hidden=True,
        ),
    ] = None
    encoder: Annotated[
        str | None,
        Option(
            "--encoder",
            help="For cnn: built-in encoder whose last blocks are trained, default lite0-max; none: a small network "
            "from random weights.",
        ),
    ] = None
    fine_tune: Annotated[
        int | None,
        Option(min=1, max=100, help="For cnn: last blocks of the encoder to train, default 5.", hidden=True),
    ] = None
    epochs: Annotated[
        int | None,
        Option(
            min=1,
            max=1000,
            help="For cnn: passes through the images, default 5, without an encoder 15.",
            hidden=True,
        ),
    ] = None
    mirror: Annotated[
        bool,
        Option("--mirror", help="For cnn: learn from mirror images too, and average over both.", hidden=True),
    ] = False
    window: Annotated[
        str | None,
        Option(
            "--window",
            help="For cnn: part of the images that the network sees: whole, middle-rows, middle-columns, centre, "
            "upper, lower, or several with commas, one for each network in turn; auto, the default: the part that "
            "grades left-out patients best before any training, and for a second network the whole.",
            hidden=True,
        ),
    ] = None
    networks: Annotated[
        int | None,
        Option(
            min=1,
            max=20,
            help="For cnn: networks whose mean is the score, default 1, each with a seed of its own.",
            hidden=True,
        ),
    ] = None
    side: Annotated[
        int | None,
        Option(
            min=32,
            max=2048,
            help="For cnn with an encoder: side in pixels of the pictures that windows are cut from, default 320.",
            hidden=True,
        ),
    ] = None


@dataclass(frozen=True)
class LossChoices:
    """Options of losses; None is the default of the loss."""

    sorter: options.Sorter = None
    tune_sorter: options.TuneSorter = False
    form: options.Form = None
    margin: options.Margin = None
    temperature: options.Temperature = None
    alpha: options.Alpha = None
    gamma: options.Gamma = None
    parallel: options.Parallel = None
    parallel_epochs: options.ParallelEpochs = 1


def with_choices(
    choices_type: type[RankerChoices | LossChoices], *left_out: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of commands, whose parameter `choices` becomes the options that are fields of a class."""
    hints = get_type_hints(choices_type, include_extras=True)
    added = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(choices_type)
        if field.name not in left_out
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command, eval_str=True).parameters
        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own.values()]
        place = list(own).index("choices")
        parameters[place : place + 1] = added

        @wraps(command)
        def run(**values: Any) -> None:
            choices = choices_type(**{each.name: values.pop(each.name) for each in added})
            command(**values, choices=choices)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate
