"""Runs: every query answered by one method, written as a run file, or taken from one that is already there."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import cbir
from cbir.atomic import atomic_text
from cbir.errors import InvalidInput
from cbir.evaluation.candidates import Candidates
from cbir.evaluation.methods import Method
from cbir.evaluation.query_images import EvalQuery
from cbir.evaluation.run_matrix import RunMatrix
from cbir.evaluation.search_pool import SearchPool, SearchResult, SearchTask
from cbir.evaluation.trec import iter_run, run_lines
from cbir.search import Request
from cbir.settings import Settings
from cbir.store import Collection

Progress = Callable[[int], None]


@dataclass(frozen=True)
class SearchProtocol:
    """On what terms every query of an evaluation is answered, whatever the method.

    depth: answers to each query. where: conditions they fulfil. same_patient: whether images of the query's own
    patient may be among them.
    """

    depth: int
    where: tuple[str, ...] = ()
    same_patient: bool = False

    def ask(self, query: EvalQuery, method: Method) -> SearchTask:
        """The search, with the request that the service would be sent."""
        request = Request(
            k=self.depth,
            rerank=method.rerank,
            parameters=method.parameters,
            where=list(self.where),
            exclude_patient=None if self.same_patient else query.patient,
        )
        return SearchTask(query.image_id, query.raw, query.content, request)


@dataclass(frozen=True, eq=False)
class EvalRun:
    """A method's answers. facts: parameters, scope and notes of the re-ranker, seconds taken, ties met."""

    method: Method
    answers: RunMatrix
    facts: dict[str, Any]


class RunWriter:
    """Answers the queries of one evaluation with one method after another.

    folder: for the run files: METHOD.run, and beside it METHOD.json with what decided its content and what was
    met on the way. A finished one with the same settings is read instead of being made again.
    """

    def __init__(
        self, collection: Collection, candidates: Candidates, queries: Sequence[EvalQuery], terms: SearchProtocol,
        settings: Settings, folder: Path,
    ) -> None:  # fmt: skip
        self.candidates, self.queries, self.terms, self.folder = candidates, queries, terms, folder
        digest = blake2b(digest_size=16)
        for query in queries:
            vector = b"" if query.raw is None else query.raw.tobytes()
            digest.update(f"{query.name} {query.content} {query.patient}\n".encode() + vector)
        self.decisive = {
            "cbir": cbir.__version__,
            "created": collection.info()["created"],
            "generation": candidates.generation,
            "profile": collection.profile.model_dump(mode="json"),
            "settings": settings.model_dump(mode="json", include={"exact_limit", "candidates"}),
            "terms": asdict(terms) | {"where": list(terms.where)},
            "queries": digest.hexdigest(),
        }

    def run(self, method: Method, workers: SearchPool, progress: Progress) -> EvalRun:
        """Answer every query; `progress` is told how many more are answered."""
        path = self.folder / method.file
        decisive = self.decisive | {"method": method.name}
        facts = _finished(path, decisive)
        if facts is not None:
            progress(len(self.queries))
            return EvalRun(method, self._read(path), facts | {"reused": True})
        answers, facts = self._search(method, path, workers, progress)
        with atomic_text(path.with_suffix(".json")) as file:
            json.dump({"decisive": decisive, "facts": facts, "bytes": path.stat().st_size}, file, indent=2)
        return EvalRun(method, answers, facts | {"reused": False})

    def _none(self) -> RunMatrix:
        depth = min(self.terms.depth, len(self.candidates))
        return RunMatrix(np.full((len(self.queries), depth), -1, np.int32))

    def _search(
        self, method: Method, path: Path, workers: SearchPool, progress: Progress
    ) -> tuple[RunMatrix, dict[str, Any]]:
        started, answers, notices = perf_counter(), self._none(), RunNotes()
        names = [record.image_id for record in self.candidates.records]
        asked = [self.terms.ask(query, method) for query in self.queries]
        found_in_order = workers.search(asked, self.candidates.generation)
        with atomic_text(path) as file:
            for number, found in enumerate(found_in_order):
                places = self.candidates.places(found.numbers)
                answers.places[number, : len(places)] = places
                images = [names[place] for place in places.tolist()]
                lines = run_lines(self.queries[number].name, images, found.reported, method.name)
                file.writelines(f"{line}\n" for line in lines)
                notices.take(found)
                progress(1)
        return answers, notices.facts() | {"seconds": round(perf_counter() - started, 2)}

    def _read(self, path: Path) -> RunMatrix:
        place_of = {record.image_id: place for place, record in enumerate(self.candidates.records)}
        number_of = {query.name: number for number, query in enumerate(self.queries)}
        answers = self._none()
        try:
            for name, images, _ in iter_run(path):
                answers.places[number_of[name], : len(images)] = [place_of[image] for image in images]
        except (KeyError, ValueError) as error:
            raise InvalidInput(f"{path} does not fit the queries; remove it and run again") from error
        return answers


class RunNotes:
    """What is worth reporting about the answers of a run."""

    def __init__(self) -> None:
        self.answers = self.ties = 0
        self.notes: set[str] = set()
        self.parameters: dict[str, Any] = {}
        self.scope = ""

    def take(self, found: SearchResult) -> None:
        """Note the answers to one more query."""
        self.answers += len(found.numbers)
        self.ties += found.ties
        self.notes.update(found.reranking.notes)
        self.parameters, self.scope = found.reranking.parameters, found.reranking.scope

    def facts(self) -> dict[str, Any]:
        """answers: in all; ties: of them with the score of the one before; the re-ranker's own words."""
        return {
            "parameters": self.parameters, "scope": self.scope, "notes": sorted(self.notes),
            "answers": self.answers, "ties": self.ties,
        }  # fmt: skip


def _finished(path: Path, decisive: dict[str, Any]) -> dict[str, Any] | None:
    """The facts of a finished run of those settings; None where there is none."""
    try:
        kept = json.loads(path.with_suffix(".json").read_text())
        if kept["decisive"] == decisive and kept["bytes"] == os.stat(path).st_size:
            facts: dict[str, Any] = kept["facts"]
            return facts
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
