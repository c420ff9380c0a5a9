"""Runs: every query searched by one method, written as a run file, or read from any program's."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import cbir
from cbir import rerank
from cbir.errors import InvalidInput
from cbir.evaluation.qrels import EvalQuery, RunMatrix
from cbir.evaluation.relevance import Candidates
from cbir.evaluation.run_files import RunFile, run_lines, trec_word
from cbir.evaluation.search_pool import SearchPool, SearchResult, SearchTask
from cbir.rerank.reranker import parse_value
from cbir.search import Request
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system.files import atomic_text, file_sha256


@dataclass(frozen=True)
class Method:
    """A re-ranker with parameters.

    name: of the run, as typed. rerank: name of the re-ranker. parameters: that differ from the profile's.
    """

    name: str
    rerank: str
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Name of its run file."""
        return re.sub(r"[^\w.=-]", "-", self.name) + ".run"


def parse_methods(text: str) -> list[Method]:
    """Parse a list separated by spaces or commas; raise InvalidInput for an unknown re-ranker."""
    entries = [rerank.names() if entry == "all" else [entry] for entry in re.split(r"[\s,]+", text) if entry]
    methods = [_method(name) for name in dict.fromkeys(chain.from_iterable(entries))]
    if not methods:
        raise InvalidInput(f"name at least one re-ranker: {', '.join(rerank.names())}, and all")
    return methods


def _method(name: str) -> Method:
    kind, *settings = name.split(":")
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        try:
            parameters[key] = parse_value(value)
        except ValueError:
            raise InvalidInput(
                f"'{name}': {setting} is not of the form NAME=NUMBER, as in eprf:P=9"
            ) from None
    rerank.get(kind, **parameters)
    return Method(name, kind, parameters)


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
        facts = read_finished(path, decisive)
        if facts is not None:
            progress(len(self.queries))
            return EvalRun(method, self._read(path), facts | {"reused": True})
        matrix, facts = self._search(method, path, pool, progress)
        write_finished(path, decisive, facts)
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
        if path.stat().st_size == 0:  # no query has an answer, which RunFile refuses in files of others
            return matrix
        try:
            run = RunFile(path)
            for name in run.queries:
                images = run.answers(name).images
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


def read_finished(path: Path, decisive: dict[str, Any]) -> dict[str, Any] | None:
    """Return the facts of a finished file that was written with the same `decisive` settings; None without one."""
    try:
        saved = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if saved["decisive"] == decisive and _is_unchanged(path, saved):
            facts: dict[str, Any] = saved["facts"]
            return facts
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _is_unchanged(path: Path, saved: dict[str, Any]) -> bool:
    """Return whether a file is the one that was finished; earlier versions stored its size alone."""
    if "sha256" in saved:
        return bool(saved["sha256"] == file_sha256(path))
    return bool(saved["bytes"] == path.stat().st_size)


def write_finished(path: Path, decisive: dict[str, Any], facts: dict[str, Any]) -> None:
    """Store beside a finished file, `path`, what is `decisive` for its content, and `facts` about it."""
    with atomic_text(path.with_suffix(".json")) as file:
        json.dump({"decisive": decisive, "facts": facts, "sha256": file_sha256(path)}, file, indent=2)


def read_external_run(
    path: Path, candidates: Candidates, queries: Sequence[EvalQuery], protocol: SearchProtocol
) -> EvalRun:
    """Read a run under the rules of every search of an evaluation.

    Parameters
    ----------
    path : Path
        TREC run file with the names of the queries and image ids; its name is that of the run.
    candidates : Candidates
        Images that may be answers; others are left out, and counted in the notes.
    queries : sequence of EvalQuery
        Queries to evaluate. Their own pictures, and images of their patients unless the protocol allows them, are
        left out of the answers.
    protocol : SearchProtocol

    Returns
    -------
    EvalRun
        `seconds` is None, `source` the absolute path of the file.

    Raises
    ------
    InvalidInput
        If the file is no run, or has no answer to any of these queries.
    """
    run = RunFile(path)
    position_of = {record.image_id: position for position, record in enumerate(candidates.records)}
    matrix = np.full((len(queries), min(protocol.depth, len(candidates))), -1, np.int32)
    ties = unknown = unanswered = 0
    for row, query in enumerate(queries):
        answers = run.answers(trec_word(query.name))
        ranks = [rank for rank, image in enumerate(answers.images) if image in position_of]
        unknown += len(answers.images) - len(ranks)
        allowed = [
            rank
            for rank in ranks
            if _is_allowed(candidates, position_of[answers.images[rank]], query, protocol)
        ][: matrix.shape[1]]
        matrix[row, : len(allowed)] = [position_of[answers.images[rank]] for rank in allowed]
        ties += int((np.diff(answers.scores[allowed]) == 0).sum())
        unanswered += not allowed
    if unanswered == len(queries):
        raise InvalidInput(
            f"{path} has no answers to these queries among these images; is it of another collection?"
        )
    counts = {
        "answers are not among the images of this evaluation and are left out": unknown,
        "queries have no answer in the file": unanswered,
    }
    notes = [f"{count} {text}" for text, count in counts.items() if count]
    facts = {
        "parameters": {}, "scope": "", "notes": notes, "answers": int((matrix >= 0).sum()), "ties": ties,
        "seconds": None, "reused": False, "source": str(path.resolve()),
    }  # fmt: skip
    return EvalRun(Method(path.stem, ""), RunMatrix(matrix), facts)


def long_run_name(path: Path) -> str:
    """Return a name for a run file with that of its results: results/none for results/runs/none.run."""
    folder = path.resolve().parent
    return f"{(folder.parent if folder.name == 'runs' else folder).name}/{path.stem}"


def _is_allowed(candidates: Candidates, position: int, query: EvalQuery, protocol: SearchProtocol) -> bool:
    record = candidates.records[position]
    other_patient = protocol.same_patient or not query.patient or record.patient_key != query.patient
    return record.content_hash != query.content and other_patient
