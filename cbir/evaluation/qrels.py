"""Relevance judgements (qrels): the gain of a collection's images for each query."""

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

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Qrels:
    """Relevance by labels, complete except for images without the required labels.

    queries: those with a relevant image. classes: (n,) of the candidates and query_classes (q,): equal if all
    criteria, the grade included, agree; -1: not judged. titles: of the classes by number. positions: for each query
    the ascending positions (m,) of the candidates with a gain, gains: (m,) of them. level: the smallest gain that
    counts as relevant for binary metrics. spread: largest minus smallest grade, 0 without grades.
    without_relevant: queries without a relevant image, which no average includes.
    """

    relevance: Relevance
    queries: Sequence[EvalQuery]
    classes: Ints
    query_classes: Ints
    titles: Sequence[str]
    positions: Sequence[Ints]
    gains: Sequence[Ints]
    level: int
    spread: int
    without_relevant: Sequence[EvalQuery]

    @cached_property
    def relevant(self) -> Ints:
        """Number of relevant images of each query, (q,)."""
        return np.array([np.count_nonzero(gains >= self.level) for gains in self.gains], np.int64)

    @property
    def unjudged(self) -> int:
        """Number of candidates without the labels; they count as not relevant."""
        return int((self.classes < 0).sum())


def build_qrels(
    candidates: Candidates,
    queries: Sequence[EvalQuery],
    relevance: Relevance,
    *,
    level: int | None = None,
    same_patient: bool = False,
) -> Qrels:
    """Judge every candidate for every query by their labels.

    Parameters
    ----------
    candidates : Candidates
    queries : sequence of EvalQuery
        They must have the labels that `relevance` needs. A query's own picture is never relevant to it.
    relevance : Relevance
    level : int, optional
        Smallest gain that counts as relevant; by default 1, or the largest gain (an equal grade) with grades.
    same_patient : bool
        Judge images of the query's own patient too.

    Raises
    ------
    InvalidInput
        If labels or level do not fit, or no query has a relevant image.
    """
    encoder = _LabelEncoder(relevance)
    judge = _Judge(candidates, encoder.encode(record.labels for record in candidates.records))
    encoded = encoder.encode(query.labels for query in queries)
    level = _resolve_level(level, judge.spread, relevance)
    answerable, without, judged = [], [], []
    for number, query in enumerate(queries):
        positions, gains = judge.gains(query, encoded.groups[number], encoded.grades[number], same_patient)
        if (gains >= level).any():
            answerable.append(number)
            judged.append((positions, gains))
        else:
            without.append(query)
    if not answerable:
        raise InvalidInput(f"by '{relevance.text}' no image of the collection is relevant to any query")
    return Qrels(
        relevance=relevance,
        queries=[queries[number] for number in answerable],
        classes=judge.labels.classes,
        query_classes=encoded.classes[answerable],
        titles=encoder.titles(),
        positions=[positions for positions, _ in judged],
        gains=[gains for _, gains in judged],
        level=level,
        spread=judge.spread,
        without_relevant=without,
    )


@dataclass(frozen=True, eq=False)
class _EncodedLabels:
    """Labels as integers (n,): the values that must agree, the grade (0 without), and both; -1: not judged."""

    groups: Ints
    grades: Ints
    classes: Ints


class _LabelEncoder:
    """Gives equal numbers to equal labels, of candidates and queries alike."""

    def __init__(self, relevance: Relevance) -> None:
        self.relevance = relevance
        self._groups: dict[tuple[str, ...], int] = {}
        self._classes: dict[tuple[str, ...], int] = {}

    def encode(self, rows: Iterable[Mapping[str, str]]) -> _EncodedLabels:
        rows = list(rows)
        return _EncodedLabels(
            encode_values((self.relevance.group(labels) for labels in rows), self._groups),
            np.array([self.relevance.grade_of(labels) or 0 for labels in rows], np.int64),
            encode_values((self.relevance.class_of(labels) for labels in rows), self._classes),
        )

    def titles(self) -> list[str]:
        return [" / ".join(values) for values in self._classes]


class _Judge:
    """Candidates by group, picture and patient."""

    def __init__(self, candidates: Candidates, labels: _EncodedLabels) -> None:
        self.labels = labels
        grades = labels.grades[labels.groups >= 0]
        self.spread = int(np.ptp(grades)) if len(grades) else 0
        self._content_codes: dict[str, int] = {}
        self._patient_codes: dict[str, int] = {}
        records = candidates.records
        self._contents = encode_values((record.content_hash for record in records), self._content_codes)
        self._patients = encode_values((record.patient_key for record in records), self._patient_codes)
        order = np.argsort(labels.groups, kind="stable")
        bounds = np.searchsorted(labels.groups[order], np.arange(labels.groups.max(initial=-1) + 2))
        self._members = [order[start:stop] for start, stop in pairwise(bounds)]

    def gains(self, query: EvalQuery, group: int, grade: int, same_patient: bool) -> tuple[Ints, Ints]:
        """Return ascending positions and gains above 0 of a query's relevant candidates."""
        positions = self._members[group] if group < len(self._members) else np.empty(0, np.int64)
        allowed = self._contents[positions] != self._content_codes.get(query.content, -2)
        if query.patient and not same_patient:
            allowed &= self._patients[positions] != self._patient_codes.get(query.patient, -2)
        positions = positions[allowed]
        # Without grades they and their spread are 0, and every gain is 1.
        gains = max(self.spread, 1) - np.abs(self.labels.grades[positions] - grade)
        return positions[gains > 0], gains[gains > 0]


def _resolve_level(level: int | None, spread: int, relevance: Relevance) -> int:
    if relevance.grade and not spread:
        raise InvalidInput(
            f"relevance by grade needs images of at least two grades in the label {relevance.grade}"
        )
    largest = max(spread, 1)
    if level is not None and not 1 <= level <= largest:
        raise InvalidInput(f"the level must be from 1 to {largest}, the largest gain; got {level}")
    return level or largest
