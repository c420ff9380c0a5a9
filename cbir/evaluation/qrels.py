"""Relevance judgements (qrels), and runs in memory: the ranked answers to every query with their gains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.query_images import EvalQuery
from cbir.evaluation.relevance import Candidates, Relevance, encode_values

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
    n = len(candidates)
    rows = [record.labels for record in candidates.records] + [query.labels for query in queries]
    titles: dict[tuple[str, ...], int] = {}
    groups = encode_values((relevance.group(labels) for labels in rows), {})
    grades = np.array([relevance.grade_of(labels) or 0 for labels in rows], np.int64)
    classes = encode_values((relevance.class_of(labels) for labels in rows), titles)
    judged = grades[:n][groups[:n] >= 0]
    spread = int(np.ptp(judged)) if len(judged) else 0
    level = _resolve_level(level, spread, relevance)
    answerable, without, positions, gains = [], [], [], []
    relevant = _relevant_candidates(candidates, queries, groups, same_patient)
    for row, (query, answers) in enumerate(zip(queries, relevant, strict=True), start=n):
        # Without grades they and their spread are 0, and every gain is 1.
        gain = max(spread, 1) - np.abs(grades[answers] - grades[row])
        if (gain >= level).any():
            answerable.append(row)
            positions.append(answers[gain > 0])
            gains.append(gain[gain > 0])
        else:
            without.append(query)
    if not answerable:
        raise InvalidInput(f"by '{relevance.text}' no image of the collection is relevant to any query")
    return Qrels(
        relevance=relevance, queries=[queries[row - n] for row in answerable], classes=classes[:n],
        query_classes=classes[answerable], titles=[" / ".join(values) for values in titles],
        positions=positions, gains=gains, level=level, spread=spread, without_relevant=without,
    )  # fmt: skip


def _relevant_candidates(
    candidates: Candidates, queries: Sequence[EvalQuery], groups: Ints, same_patient: bool
) -> Iterator[Ints]:
    """Yield for each query the ascending positions of its group, without its picture and its patient's images."""
    records, n = candidates.records, len(candidates)
    contents = encode_values([r.content_hash for r in records] + [query.content for query in queries], {})
    patients = encode_values([r.patient_key for r in records] + [query.patient for query in queries], {})
    order = np.argsort(groups[:n], kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(groups.max(initial=-1) + 2))
    for row, query in enumerate(queries, start=n):
        positions = order[bounds[groups[row]] : bounds[groups[row] + 1]]
        allowed = contents[positions] != contents[row]
        if query.patient and not same_patient:
            allowed &= patients[positions] != patients[row]
        yield positions[allowed]


def _resolve_level(level: int | None, spread: int, relevance: Relevance) -> int:
    if relevance.grade and not spread:
        raise InvalidInput(
            f"relevance by grade needs images of at least two grades in the label {relevance.grade}"
        )
    largest = max(spread, 1)
    if level is not None and not 1 <= level <= largest:
        raise InvalidInput(f"the level must be from 1 to {largest}, the largest gain; got {level}")
    return level or largest


BLOCK = 256  # queries at a time: some megabytes


@dataclass(frozen=True, eq=False)
class RunMatrix:
    """Answers to q queries.

    positions: (q, k) int32 of candidates, best first; -1 after the last answer of a query.
    """

    positions: NDArray[np.int32]

    @property
    def depth(self) -> int:
        """Number of answers to each query, k."""
        return int(self.positions.shape[1])


@dataclass(frozen=True, eq=False)
class JudgedBlock:
    """Relevance of the answers to q queries, best first.

    gains: (q, k), 0 if an answer is not relevant and after the last one. hits: (q, k), gain at least the level.
    classes: (q, k) of the answers, -1: not judged or after the last one. query_classes: (q,).
    relevant: (q,) number of relevant images in the collection, retrieved or not, at least 1. most_relevant: the
    largest such number of all queries of the run.
    """

    gains: Ints
    hits: NDArray[np.bool_]
    classes: Ints
    query_classes: Ints
    relevant: Ints
    most_relevant: int


def judged_blocks(run: RunMatrix, qrels: Qrels) -> Iterator[tuple[slice, JudgedBlock]]:
    """Yield the relevance of the answers of `run` by `qrels`, a slice of the queries at a time."""
    relevant = qrels.relevant
    gain_of = np.zeros(len(qrels.classes) + 1, np.int64)  # the last element is for "no answer"
    class_of = np.append(qrels.classes, -1)
    for start in range(0, len(run.positions), BLOCK):
        queries = slice(start, min(start + BLOCK, len(run.positions)))
        positions = run.positions[queries]
        gains = np.empty(positions.shape, np.int64)
        for row, query in enumerate(range(queries.start, queries.stop)):
            gain_of[qrels.positions[query]] = qrels.gains[query]
            np.take(gain_of, positions[row], out=gains[row], mode="wrap")
            gain_of[qrels.positions[query]] = 0
        yield (
            queries,
            JudgedBlock(
                gains,
                gains >= qrels.level,
                class_of[positions],
                qrels.query_classes[queries],
                relevant[queries],
                int(relevant.max()),
            ),
        )
