"""Interface of re-rankers, and their parameters: declared once with their bounds, checked when they are set."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, RankingList
from cbir.gallery.vector_blocks import Doubles, Floats, Rows, Scores
from cbir.rerank.query_list import QueryList

AUTO = "auto"  # value of a parameter that the method chooses
PRESET, PAPER = (
    "preset",
    "paper",
)  # preset=paper: the values of the method's paper, whatever a profile has tuned
MOST_QUOTED = 40  # characters of a wrong value that a message quotes
Grid = Mapping[str, tuple[float, ...]]  # values to try of each parameter
TIE = 1e-8  # weight of the previous score, which breaks ties; below the resolution of float32
POSITIVES = (3, 6, 9, 12, 15)  # values of P to try: images taken as relevant (Huang et al. 2012, figure 4)


@dataclass(frozen=True)
class ParameterInfo:
    """Declaration of a parameter: a number from `minimum` to `maximum`, or "auto" where that is the default."""

    name: str
    whole: bool
    minimum: float
    maximum: float
    default: float | str
    description: str


def parameter(default: float | str, low: float, high: float, description: str) -> Any:
    """Declare a field of a `ParameterSet`.

    Parameters
    ----------
    default : int, float or "auto"
        An int declares a whole number; "auto", a number that the method chooses unless it is given.
    low, high : int or float
        Bounds, both included.
    description : str
        Meaning of the parameter, for documentation.
    """
    return field(default=default, metadata={"low": low, "high": high, "description": description})


def with_default(owner: type["ParameterSet"], name: str, default: float | str) -> Any:
    """Declare a field with the bounds and the meaning of a parameter of another set.

    Parameters
    ----------
    owner : type
        Set that declares the parameter.
    name : str
        Its name there.
    default : int, float or "auto"
        Default of the new field.
    """
    metadata = next(spec.metadata for spec in fields(owner) if spec.name == name)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class ParameterSet:
    """Numbers within bounds; a frozen dataclass whose fields are declared with `parameter`.

    Numbers written as text are accepted. Raises InvalidInput for a value outside its bounds.
    `paper`: the values that its paper gives, which `preset=paper` stands for; empty for a method without one.
    """

    paper: ClassVar[Mapping[str, float | str]] = {}

    def __post_init__(self) -> None:
        for spec in fields(self):
            low, high = spec.metadata["low"], spec.metadata["high"]
            value, is_int = getattr(self, spec.name), isinstance(spec.default, int)
            if spec.default == AUTO and isinstance(value, str) and value == AUTO:
                continue
            number = _finite(value)
            if number is None or not low <= number <= high or (is_int and number != int(number)):
                kind, form = ("whole number", "") if is_int else ("number", "g")
                choice = f" or {AUTO}" if spec.default == AUTO else ""
                bounds = f"a {kind} from {low:{form}} to {high:{form}}{choice}"
                raise InvalidInput(f"{spec.name} must be {bounds}, not {value!r:.{MOST_QUOTED}}")
            object.__setattr__(self, spec.name, int(number) if is_int else number)

    @property
    def parameters(self) -> dict[str, Any]:
        """Values by name, as answers report them."""
        return asdict(self)

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Return the names in the order of declaration."""
        return tuple(spec.name for spec in fields(cls))

    @classmethod
    def parameter_infos(cls) -> tuple[ParameterInfo, ...]:
        """Return the declarations in their order."""
        infos: list[ParameterInfo] = []
        for spec in fields(cls):
            default: Any = spec.default
            low, high, text = (spec.metadata[key] for key in ("low", "high", "description"))
            infos.append(ParameterInfo(spec.name, isinstance(default, int), low, high, default, text))
        return tuple(infos)

    @classmethod
    def from_values(cls, label: str, values: Mapping[str, Any]) -> Self:
        """Create a set from `values`, the rest at their defaults; `label` names it in errors.

        With `preset=paper` among them, the rest has the values of the paper. Raises InvalidInput for an unknown name,
        with the list of those that exist.
        """
        values = cls.with_preset(label, values)
        names = cls.parameter_names()
        for name in values:
            if name not in names:
                listed = f"it has: {', '.join(names)}" if names else "it has none"
                raise InvalidInput(f"{label} has no parameter {name!r}; {listed}")
        return cls(**values)

    @classmethod
    def with_preset(cls, label: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` with those of the paper in place of `preset=paper`; `label` names the set in errors.

        Raises InvalidInput for another preset, and where there is no paper.
        """
        if PRESET not in values:
            return dict(values)
        if not cls.paper:
            raise InvalidInput(f"{label} has no {PRESET}: it follows no paper; set its parameters one by one")
        if str(values[PRESET]) != PAPER:
            raise InvalidInput(f"{PRESET} must be {PAPER}, not {values[PRESET]!r:.{MOST_QUOTED}}")
        return {**cls.paper, **{name: value for name, value in values.items() if name != PRESET}}


def parse_value(text: str) -> int | float | str:
    """Parse the value of a parameter, a number, "auto" or "paper"; raises ValueError."""
    if text in (AUTO, PAPER):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)


def _finite(value: Any) -> float | None:
    """Return a finite number, also from text; None for anything else, bools included."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True, eq=False)
class Reranked:
    """New scores of a ranking list.

    Attributes
    ----------
    scores : (m,) float32 or float64
        One for each row of the list; larger is better, equal scores keep the order of their rows.
    scope : str
        Part that was re-ranked: "collection", or "top" for the first candidates alone.
    notes : tuple of str
        Messages for the user, such as too few images to train on.
    """

    scores: Scores
    scope: str = "collection"
    notes: tuple[str, ...] = ()

    def reported(self, scores: Scores) -> Scores:
        """Convert `scores` to the values that answers report: a monotone function, such as a probability."""
        return scores


@dataclass(frozen=True, kw_only=True)
class Reranker(ParameterSet):
    """One re-ranking method with its parameters.

    A subclass sets `name` (as users type it), `title` and `description` (as the search page shows them), declares
    its parameters with `parameter(...)`, and implements `__call__`. It may set `depth`, `grid` (values that
    comparisons try) and `svm_grid` (values of C and gamma that `cbir collection tune` tries). Whoever changes the
    scores of a method raises its `version`: tables of results name the versions that they were measured with.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    grid: ClassVar[Grid] = {}
    svm_grid: ClassVar[Grid] = {}
    reads_tail: ClassVar[bool] = True  # whether images far from the query change the scores of near ones

    @property
    def depth(self) -> int | None:
        """Number of top candidates that the method reads or may move down, a parameter M; None for the full list."""
        return getattr(self, "M", None)

    @abstractmethod
    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        """Score the rows of a ranking list; equal arguments give equal scores.

        Parameters
        ----------
        query : (d,) float32
            Normalised query vector.
        ranking : RankingList
            Rows of the gallery with their distances to the query.
        gallery : Gallery
            Vectors of the collection.
        """

    def rerank(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        """Re-rank on `query_list`; return gallery rows, ascending, and their scores.

        The rows include the query_list's k best.
        """
        return query_list.ranking.rows, self(query_list.query, query_list.ranking, query_list.gallery)

    @classmethod
    def tuned_names(cls) -> tuple[str, ...]:
        """Return the parameters that a profile may set."""
        return cls.parameter_names()

    @classmethod
    def settings_name(cls) -> str:
        """Return the name under which a profile holds parameters of this method alone."""
        return cls.name

    @classmethod
    def tuning_points(cls) -> list[dict[str, float]]:
        """Return parameters to try when a method is tuned: all combinations of `grid`, the defaults among them.

        Without a grid these are the defaults; for a method that has a P, each of `POSITIVES`.
        """
        names = cls.parameter_names()
        grid = cls.grid or ({"P": POSITIVES} if "P" in names else {})
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        defaults = cls().parameters
        default = {name: defaults[name] for name in grid}
        return points if default in points else [default, *points]


class CollectionReranker(Reranker):
    """Base of methods that score the whole collection through the operations of a query_list."""

    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        return self.rerank(QueryList(query, ranking, gallery))[1]

    @abstractmethod
    def rerank(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        """Re-rank on `query_list`; return gallery rows, ascending, and their scores."""


def score_above_rest(ranking: RankingList, positions: NDArray[np.int64], closeness: Scores) -> Doubles:
    """Score re-ranked top candidates above all other images of a list.

    Parameters
    ----------
    ranking : RankingList
        List of m images.
    positions : (p,) int64
        Places of the top candidates in the list.
    closeness : (p,) floating, in [0, 1]
        Rounded to float32, so that equal images, whose sums may differ in the last bits, tie.

    Returns
    -------
    (m,) float64
        1 + closeness at `positions`, the similarity elsewhere.
    """
    scores = ranking.similarities.astype(np.float64)
    scores[positions] = 1.0 + closeness.astype(np.float32) + TIE * (1.0 + scores[positions])
    return scores
