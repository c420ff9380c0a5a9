"""TREC files, runs `query Q0 image rank score tag` and qrels `query 0 image gain`, and the fusion of runs.

trec_eval and programs built on it keep scores in single precision and order equal ones by name. Written scores
therefore fall strictly in float32, so that every reader sees the same order.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.system.files import os_errors


def strictly_falling(scores: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return finite scores (k,), best first, as float32 that fall strictly.

    A score that is not below its predecessor becomes the next smaller float32; all others are only rounded.
    """
    bits = np.ascontiguousarray(scores, np.float32).view(np.int32).astype(np.int64)
    # Counting float32 numbers upwards from zero: neighbours differ by one, -0 and 0 are the same.
    counts = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    steps = np.arange(len(counts))
    counts = np.minimum.accumulate(counts + steps) - steps
    bits = np.where(counts < 0, -counts | 0x80000000, counts)
    return bits.astype(np.uint32).view(np.float32)


def trec_word(text: str) -> str:
    """Replace white space, which would end a name in a TREC file."""
    return "_".join(text.split())


def run_lines(query: str, images: Sequence[str], scores: NDArray[np.floating], tag: str) -> list[str]:
    """Format the answers to one query.

    Parameters
    ----------
    query : str
    images : sequence of str
        Image ids, best first.
    scores : (k,) float
        Of the images; written so that they fall strictly.
    tag : str
        Name of the run.
    """
    query, tag = trec_word(query), trec_word(tag)
    falling = strictly_falling(scores).tolist()
    answers = zip(images, falling, strict=True)
    return [  # nine digits distinguish any two float32
        f"{query} Q0 {image} {rank} {score:.9g} {tag}" for rank, (image, score) in enumerate(answers, start=1)
    ]


def qrel_lines(query: str, images: Sequence[str], gains: Sequence[int]) -> list[str]:
    """Format the judgements of one query.

    Parameters
    ----------
    query : str
    images : sequence of str
        Image ids.
    gains : sequence of int
        One for each image.
    """
    return [f"{query} 0 {image} {gain}" for image, gain in zip(images, gains, strict=True)]


class QueryAnswers(NamedTuple):
    """Answers to one query, best first. scores: (k,) float64, finite, never rising."""

    images: list[str]
    scores: NDArray[np.float64]


class RunFile:
    """A run file whose answers are read query by query, so that its size does not matter.

    The lines of a query must be adjacent. Scores decide the order; equal ones stay as they are in the file. Ranks and
    tags are not used, as trec_eval does not use them.
    """

    def __init__(self, path: Path) -> None:
        """Find the queries of a file; raise InvalidInput, naming the line, if it has another form."""
        self.path = path
        self._starts: dict[str, tuple[int, int, int]] = {}  # first line's number and byte, count of lines
        with os_errors(f"{path} cannot be read"), path.open("rb") as file:
            self._find_queries(file)
        if not self._starts:
            raise InvalidInput(f"{path} has no answers")

    def _find_queries(self, file: BinaryIO) -> None:
        name, first, start, count, position = "", 1, 0, 0, 0
        for number, line in enumerate(file, start=1):
            query = self._cells(line, number)[0]
            if query != name:
                if query in self._starts:
                    raise InvalidInput(
                        f"{self.path}, line {number}: the lines of query {query} are not adjacent"
                    )
                if name:
                    self._starts[name] = first, start, count
                name, first, start, count = query, number, position, 0
            count += 1
            position += len(line)
        if name:
            self._starts[name] = first, start, count

    def _cells(self, line: bytes, number: int) -> list[str]:
        try:
            cells = line.decode().split()
        except UnicodeDecodeError:
            cells = []
        if len(cells) != 6:
            raise InvalidInput(
                f"{self.path}, line {number} is not of the form `query Q0 image rank score tag`"
            )
        return cells

    @property
    def queries(self) -> list[str]:
        """Names of the queries, in the order of the file."""
        return list(self._starts)

    def answers(self, query: str) -> QueryAnswers:
        """Return the answers to a query, none for one that the file lacks.

        Raises InvalidInput for a score that is not finite, or an image that answers twice.
        """
        if query not in self._starts:
            return QueryAnswers([], np.empty(0))
        first, start, count = self._starts[query]
        with self.path.open("rb") as file:
            file.seek(start)
            rows = [self._cells(file.readline(), number) for number in range(first, first + count)]
        images = [row[2] for row in rows]
        if repeated := [image for image, times in Counter(images).items() if times > 1]:
            raise InvalidInput(f"{self.path}: image {repeated[0]} answers query {query} more than once")
        try:
            scores = np.array([float(row[4]) for row in rows])
        except ValueError:
            scores = np.array([np.nan])
        if not np.isfinite(scores).all():
            raise InvalidInput(f"{self.path}: a score of query {query} is not a finite number")
        order = np.argsort(-scores, kind="stable")
        return QueryAnswers([images[index] for index in order.tolist()], scores[order])


RANK_CONSTANT = 60  # k of the paper

Scores = NDArray[np.float64]


class FusionMethod(StrEnum):
    """Ways to fuse."""

    rrf = "rrf"
    weighted = "weighted"


class ScoreScale(StrEnum):
    """Normalisations of the scores of a query before they are added."""

    min_max = "min-max"
    z_score = "z-score"


def fuse_answers(
    runs: Sequence[QueryAnswers], weights: Sequence[float], score: Callable[[Scores], Scores], missing: bool
) -> QueryAnswers:
    """Fuse the answers of several runs to one query.

    Parameters
    ----------
    runs : sequence of QueryAnswers
        Answers of each run, best first; a run without answers adds nothing.
    weights : sequence of float
        Factor of each run.
    score : callable
        Maps the falling scores (k,) of a run to the scores (k,) that are added, for instance `reciprocal_ranks`.
    missing : bool
        Add the lowest of these scores to images that a run lacks; else 0.

    Returns
    -------
    QueryAnswers
        Equal sums in the order of the first run that has the image.
    """
    rows: dict[str, int] = {}
    for run in runs:
        for image in run.images:
            rows.setdefault(image, len(rows))
    total = np.zeros(len(rows))
    for run, weight in zip(runs, weights, strict=True):
        if run.images:
            scores = score(run.scores)
            added = np.full(len(rows), scores.min() if missing else 0.0)
            added[[rows[image] for image in run.images]] = scores
            total += weight * added
    order = np.argsort(-total, kind="stable")
    images = list(rows)
    return QueryAnswers([images[row] for row in order.tolist()], total[order])


def reciprocal_ranks(scores: Scores, k: float = RANK_CONSTANT) -> Scores:
    """Return 1 / (k + rank) of falling scores (n,), ranks from 1."""
    return np.asarray(1.0 / (k + np.arange(1, len(scores) + 1)))


def min_max(scores: Scores) -> Scores:
    """Return scores (n,) mapped to 0 to 1; all 1 if they are equal."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def z_scores(scores: Scores) -> Scores:
    """Return scores (n,) less their mean, in standard deviations; all 0 if they are equal."""
    # Rounding gives equal scores a deviation, and squares of tiny differences are 0
    varies = len(scores) and np.ptp(scores) > 0 and scores.std() > 0
    return (scores - scores.mean()) / scores.std() if varies else np.zeros_like(scores)


def parse_run_weights(text: str | None, runs: int) -> list[float]:
    """Return one weight per run, from numbers separated by commas or spaces; None: equal weights.

    Raises InvalidInput for another number of weights, or one that is not positive and finite.
    """
    if text is None:
        return [1.0] * runs
    try:
        weights = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise InvalidInput(f"--weights {text} is not a list of numbers, such as 2,1") from None
    if len(weights) != runs:
        raise InvalidInput(f"--weights {text} has {len(weights)} weights for {runs} runs")
    if not all(0 < weight < float("inf") for weight in weights):
        raise InvalidInput(f"--weights {text}: weights must be positive, finite numbers")
    return weights
