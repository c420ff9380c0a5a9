"""Which of a collection's images are relevant to each query, and how much."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.candidates import Candidates, encode_values
from cbir.evaluation.query_images import EvalQuery
from cbir.evaluation.relevance import Relevance

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Qrels:
    """Relevance by labels: complete but for the images without the labels it needs.

    queries: those with a relevant image. classes: (n,) of the candidates and query_classes (q,): equal where all
    criteria, the grade included, agree; -1: not judged. titles: of the classes by number. places: for each query
    the ascending places (m,) of the candidates with a gain, gains: (m,) of them. level: the gain from which an
    answer counts as relevant, where a measure needs a yes or no. spread: of the grades, 0 without.
    without_relevant: queries to which no image is relevant; they are in no average.
    """

    relevance: Relevance
    queries: Sequence[EvalQuery]
    classes: Whole
    query_classes: Whole
    titles: Sequence[str]
    places: Sequence[Whole]
    gains: Sequence[Whole]
    level: int
    spread: int
    without_relevant: Sequence[EvalQuery]

    @cached_property
    def relevant(self) -> Whole:
        """(q,) number of the relevant images of each query."""
        return np.array([np.count_nonzero(gains >= self.level) for gains in self.gains], np.int64)

    @property
    def unjudged(self) -> int:
        """Candidates without the labels; they count as not relevant."""
        return int((self.classes < 0).sum())


def build_qrels(
    candidates: Candidates,
    queries: Sequence[EvalQuery],
    relevance: Relevance,
    *,
    level: int | None = None,
    same_patient: bool = False,
) -> Qrels:
    """Judge every candidate for every query; the queries have the labels that this needs.

    A query's own picture is no answer to it, nor is, but with `same_patient`, any image of its patient.
    level: 1, or with grades the largest gain (an equal grade), where it is not given.
    Raises InvalidInput where labels or level do not fit, or no query can be evaluated.
    """
    labels = _Labels(relevance)
    answerable = _Answerable(candidates, labels.read(record.labels for record in candidates.records))
    asked = labels.read(query.labels for query in queries)
    level = _level(level, answerable.spread, relevance)
    kept, without, found = [], [], []
    for place, query in enumerate(queries):
        places, gains = answerable.to(query, asked.groups[place], asked.grades[place], same_patient)
        if (gains >= level).any():
            kept.append(place)
            found.append((places, gains))
        else:
            without.append(query)
    if not kept:
        raise InvalidInput(
            f"by '{relevance.text}' no image of the collection is relevant to any of the queries"
        )
    return Qrels(
        relevance=relevance,
        queries=[queries[place] for place in kept],
        classes=answerable.labels.classes,
        query_classes=asked.classes[kept],
        titles=labels.titles(),
        places=[places for places, _ in found],
        gains=[gains for _, gains in found],
        level=level,
        spread=answerable.spread,
        without_relevant=without,
    )


@dataclass(frozen=True, eq=False)
class _Read:
    """Labels as numbers (n,): what must be equal, the grade (0 without), and both together; -1: not judged."""

    groups: Whole
    grades: Whole
    classes: Whole


class _Labels:
    """Gives equal numbers to equal labels, of candidates and queries alike."""

    def __init__(self, relevance: Relevance) -> None:
        self.relevance = relevance
        self._groups: dict[tuple[str, ...], int] = {}
        self._classes: dict[tuple[str, ...], int] = {}

    def read(self, labelled: Iterable[Mapping[str, str]]) -> _Read:
        labels = list(labelled)
        grades = [self.relevance.grade_of(one) or 0 for one in labels]
        return _Read(
            encode_values((self.relevance.group(one) for one in labels), self._groups),
            np.array(grades, np.int64),
            encode_values((self.relevance.class_of(one) for one in labels), self._classes),
        )

    def titles(self) -> list[str]:
        return [" / ".join(values) for values in self._classes]


class _Answerable:
    """The candidates by group, picture and patient."""

    def __init__(self, candidates: Candidates, labels: _Read) -> None:
        self.labels = labels
        grades = labels.grades[labels.groups >= 0]
        self.spread = int(np.ptp(grades)) if len(grades) else 0
        self._known_contents: dict[str, int] = {}
        self._known_patients: dict[str, int] = {}
        self._contents = encode_values(
            (record.content_hash for record in candidates.records), self._known_contents
        )
        self._patients = encode_values(
            (record.patient_key for record in candidates.records), self._known_patients
        )
        order = np.argsort(labels.groups, kind="stable")
        bounds = np.searchsorted(labels.groups[order], np.arange(labels.groups.max(initial=-1) + 2))
        self._members = [order[start:stop] for start, stop in pairwise(bounds)]

    def to(self, query: EvalQuery, group: int, grade: int, same_patient: bool) -> tuple[Whole, Whole]:
        """Ascending places and gains (above 0) of the candidates that are at all relevant to a query."""
        places = self._members[group] if group < len(self._members) else np.empty(0, np.int64)
        allowed = self._contents[places] != self._known_contents.get(query.content, -2)
        if query.patient and not same_patient:
            allowed &= self._patients[places] != self._known_patients.get(query.patient, -2)
        places = places[allowed]
        # Without grades all of them are 0, the spread is, and every gain is 1.
        gains = max(self.spread, 1) - np.abs(self.labels.grades[places] - grade)
        return places[gains > 0], gains[gains > 0]


def _level(wanted: int | None, spread: int, relevance: Relevance) -> int:
    if relevance.grade and not spread:
        raise InvalidInput(
            f"relevance by grade needs images of two grades at least in the label {relevance.grade}"
        )
    top = max(spread, 1)
    if wanted is not None and not 1 <= wanted <= top:
        raise InvalidInput(f"the level must be from 1 to {top}, the largest gain there is, not {wanted}")
    return wanted or top
