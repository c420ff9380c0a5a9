"""Runs: every query searched by one method, written as a run file or read from a finished one."""

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
from cbir.system.atomic import atomic_text

# That decide the content of a run.
DECISIVE_SETTINGS = {"exact_limit", "indexed_candidates", "indexed_sample", "index_probes"}

Progress = Callable[[int], None]


@dataclass(frozen=True)
class SearchProtocol:
    """Rules of every search of an evaluation, the same for all methods.

    depth: answers to each query. where: conditions that they fulfil. same_patient: include images of the query's
    own patient.
    """

    depth: int
    where: tuple[str, ...] = ()
    same_patient: bool = False

    def task(self, query: EvalQuery, method: Method) -> SearchTask:
        """Return the search of `query` by `method`, with the request that a client would send."""
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
    """Answers of a method, or of a run file.

    facts: parameters, scope and notes of the re-ranker, seconds, ties; `source` is the file of a run that was not
    searched, whose seconds are None.
    """

    method: Method
    matrix: RunMatrix
    facts: dict[str, Any]

    @property
    def file(self) -> str:
        """Path of the run file: below the folder of the results, or of the source."""
        return str(self.facts.get("source") or f"runs/{self.method.file}")

    @property
    def seconds(self) -> str:
        """Time of the searches in words for tables."""
        seconds = self.facts["seconds"]
        return "-" if seconds is None else f"{seconds:.1f}"


class RunWriter:
    """Runs the queries of one evaluation with one method after another.

    `folder` gets METHOD.run, and METHOD.json with the settings that decide its content and the facts of the run. A
    finished run with the same settings is read instead of repeated.
    """

    def __init__(
        self, collection: Collection, candidates: Candidates, queries: Sequence[EvalQuery], protocol: SearchProtocol,
        settings: Settings, folder: Path,
    ) -> None:  # fmt: skip
        self.candidates, self.queries, self.protocol, self.folder = candidates, queries, protocol, folder
        digest = blake2b(digest_size=16)
        for query in queries:
            vector = b"" if query.raw is None else query.raw.tobytes()
            digest.update(f"{query.name} {query.content} {query.patient}\n".encode() + vector)
        self.decisive = {
            "cbir": cbir.__version__,
            "created": collection.info()["created"],
            "generation": candidates.generation,
            "profile": collection.profile.model_dump(mode="json"),
            "settings": settings.model_dump(mode="json", include=DECISIVE_SETTINGS),
            "terms": asdict(protocol) | {"where": list(protocol.where)},
            "queries": digest.hexdigest(),
        }

    def run(self, method: Method, pool: SearchPool, progress: Progress) -> EvalRun:
        """Run every query, or read the finished run.

        Parameters
        ----------
        method : Method
        pool : SearchPool
        progress : callable
            Gets the number of new answers.
        """
        path = self.folder / method.file
        decisive = self.decisive | {"method": method.name}
        facts = _finished(path, decisive)
        if facts is not None:
            progress(len(self.queries))
            return EvalRun(method, self._read(path), facts | {"reused": True})
        matrix, facts = self._search(method, path, pool, progress)
        with atomic_text(path.with_suffix(".json")) as file:
            json.dump({"decisive": decisive, "facts": facts, "bytes": path.stat().st_size}, file, indent=2)
        return EvalRun(method, matrix, facts | {"reused": False})

    def _empty_matrix(self) -> RunMatrix:
        depth = min(self.protocol.depth, len(self.candidates))
        return RunMatrix(np.full((len(self.queries), depth), -1, np.int32))

    def _search(
        self, method: Method, path: Path, pool: SearchPool, progress: Progress
    ) -> tuple[RunMatrix, dict[str, Any]]:
        started, matrix, notes = perf_counter(), self._empty_matrix(), RunNotes()
        image_ids = [record.image_id for record in self.candidates.records]
        tasks = [self.protocol.task(query, method) for query in self.queries]
        results = pool.search(tasks, self.candidates.generation)
        with atomic_text(path) as file:
            for row, result in enumerate(results):
                positions = self.candidates.positions(result.numbers)
                matrix.positions[row, : len(positions)] = positions
                images = [image_ids[position] for position in positions.tolist()]
                lines = run_lines(self.queries[row].name, images, result.reported, method.name)
                file.writelines(f"{line}\n" for line in lines)
                notes.add(result)
                progress(1)
        return matrix, notes.facts() | {"seconds": round(perf_counter() - started, 2)}

    def _read(self, path: Path) -> RunMatrix:
        positions = {record.image_id: position for position, record in enumerate(self.candidates.records)}
        rows = {query.name: row for row, query in enumerate(self.queries)}
        matrix = self._empty_matrix()
        try:
            for name, images, _ in iter_run(path):
                matrix.positions[rows[name], : len(images)] = [positions[image] for image in images]
        except (KeyError, ValueError) as error:
            raise InvalidInput(f"{path} does not fit the queries; remove it and run again") from error
        return matrix


class RunNotes:
    """Remarks about the answers of a run."""

    def __init__(self) -> None:
        self.answers = self.ties = 0
        self.notes: set[str] = set()
        self.parameters: dict[str, Any] = {}
        self.scope = ""

    def add(self, result: SearchResult) -> None:
        """Note the answers to one more query."""
        self.answers += len(result.numbers)
        self.ties += result.ties
        self.notes.update(result.reranking.notes)
        self.parameters, self.scope = result.reranking.parameters, result.reranking.scope

    def facts(self) -> dict[str, Any]:
        """Return the number of answers, those tied with their predecessor, and the re-ranker's remarks."""
        return {
            "parameters": self.parameters, "scope": self.scope, "notes": sorted(self.notes),
            "answers": self.answers, "ties": self.ties,
        }  # fmt: skip


def _finished(path: Path, decisive: dict[str, Any]) -> dict[str, Any] | None:
    """Return the facts of a finished run with these settings, None if there is none."""
    try:
        saved = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if saved["decisive"] == decisive and saved["bytes"] == os.stat(path).st_size:
            facts: dict[str, Any] = saved["facts"]
            return facts
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
