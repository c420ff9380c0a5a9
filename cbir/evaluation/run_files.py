"""TREC run files as they come from anywhere: read by query, in any order of the queries."""

from collections import Counter
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput


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
        try:
            with path.open("rb") as file:
                self._find_queries(file)
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
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
