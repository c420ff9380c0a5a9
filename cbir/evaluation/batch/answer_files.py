"""Answers of a batch on disk: a journal that an interrupted run continues, then the file that was requested."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from cbir.errors import InvalidInput
from cbir.evaluation.batch.batch_pool import BatchAnswer
from cbir.evaluation.query_images import unique_names
from cbir.evaluation.trec import run_lines
from cbir.system.atomic import atomic_text, open_private
from cbir.system.csv_cells import harmless_cell
from cbir.system.file_lock import try_lock

SUFFIX = ".unfinished"
FORMATS = (".csv", ".jsonl", ".run")
COLUMNS = ("query", "rank", "image_id", "score", "distance", "labels", "source")
GROUP_COLUMNS = ("group", "more")  # of searches with groups, after the others


class AnswerJournal:
    """Lines of JSON beside the output: the terms of the batch, then an answer each, in the order of the queries.

    A journal of the same terms is continued; another one is begun again. One process writes it at a time. `done`:
    number of answers in it.
    """

    def __init__(self, output: Path, terms: Mapping[str, Any]) -> None:
        self.path = output.with_name(output.name + SUFFIX)
        self.done = 0
        terms = json.loads(json.dumps(terms))  # tuples become lists, as they are read
        try:
            self._file = open(  # noqa: SIM115 - stays open
                self.path, "a", encoding="utf-8", newline="\n", opener=open_private
            )
            if not try_lock(self._file.fileno()):
                self._file.close()
                raise InvalidInput(f"another search writes {output}; wait for it, or name another file")
            complete = self._complete_bytes(terms)
            self._file.truncate(complete)
            if not complete:
                self._file.write(json.dumps(terms) + "\n")
        except OSError as error:
            raise InvalidInput(f"{output} cannot be written: {error.strerror}") from error

    def _complete_bytes(self, terms: Mapping[str, Any]) -> int:
        """Count the complete lines of a journal, and return their bytes; 0 if there is none of these terms."""
        with self.path.open("rb") as file:
            try:
                if json.loads(file.readline()) != terms:
                    return 0
            except ValueError:
                return 0
            complete = file.tell()
            for line in file:
                if not _is_answer(line):  # cut, or damaged: what follows is searched again
                    break
                complete += len(line)
                self.done += 1
        return complete

    def add(self, answer: BatchAnswer) -> None:
        """Append an answer."""
        self._file.write(json.dumps(answer) + "\n")
        self._file.flush()
        self.done += 1

    def answers(self) -> Iterator[BatchAnswer]:
        """Yield all answers so far."""
        with self.path.open(encoding="utf-8") as file:
            file.readline()
            yield from map(json.loads, file)

    def remove(self) -> None:
        """Remove the journal, once its answers are elsewhere."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _is_answer(line: bytes) -> bool:
    try:
        answer = json.loads(line)
    except ValueError:
        return False
    return line.endswith(b"\n") and isinstance(answer, dict) and "query" in answer


def csv_columns(grouped: bool) -> tuple[str, ...]:
    """Return the names of the columns, for searches with or without groups."""
    return (*COLUMNS, *GROUP_COLUMNS) if grouped else COLUMNS


def write_answers(journal: AnswerJournal, output: Path, grouped: bool = False) -> None:
    """Write the answers of a journal as csv, lines of JSON, or a TREC run, by the suffix of `output`.

    Queries that cannot be used are in lines of JSON alone. A run names queries by the hash of their picture, as
    `cbir evaluate run` does.

    Parameters
    ----------
    journal : AnswerJournal
        Answers of all queries.
    output : Path
        File that is written.
    grouped : bool
        Whether the searches had groups, which are columns of a csv.
    """
    with atomic_text(output, errors="backslashreplace") as file:  # names that are not UTF-8
        if output.suffix == ".jsonl":
            file.writelines(json.dumps(answer) + "\n" for answer in journal.answers())
        elif output.suffix == ".csv":
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(csv_columns(grouped))
            rows.writerows(row for answer in journal.answers() for row in csv_rows(answer, grouped))
        else:
            names = iter(
                unique_names([answer["content"] for answer in journal.answers() if "content" in answer])
            )
            for answer in journal.answers():
                if "content" in answer:
                    file.writelines(f"{line}\n" for line in _trec_lines(next(names), answer))


def csv_rows(answer: BatchAnswer, grouped: bool = False) -> Iterator[list[Any]]:
    """Yield the cells of `csv_columns` for each hit of an answer."""
    for hit in answer.get("results", ()):
        labels = " ".join(f"{key}={value}" for key, value in hit["labels"].items())
        values = [hit[name] for name in ("rank", "image_id", "score", "distance")]
        values = [answer["query"], *values, labels, hit["source"]]
        values += [hit["group"]["key"] or "", hit["group"]["more"]] if grouped else []
        yield [harmless_cell(value) for value in values]


def _trec_lines(name: str, answer: BatchAnswer) -> list[str]:
    images = [hit["image_id"] for hit in answer["results"]]
    return run_lines(name, images, np.array([hit["score"] for hit in answer["results"]]), answer["method"])
