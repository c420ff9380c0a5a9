"""Creates reader studies: draws the queries and searches with both methods."""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.evaluation.qrels import sample_queries
from cbir.evaluation.relevance import Candidates, parse_relevance, select_candidates
from cbir.evaluation.runs import Method
from cbir.evaluation.search_pool import SearchPool, SearchTask, open_search_pool
from cbir.search import Request
from cbir.settings import Settings
from cbir.store import Collection, Record
from service.features.annotate.reader_study.tables import ReaderStudy, StudyItem

MAX_ITEMS = 1000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
EVERY = "every"  # label key of all images, where queries are not drawn by a label

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class StudyDesign:
    """Choices of a study.

    name: in the address. served_as: name of the collection in the service. label: label from whose values the queries
    are drawn in turn, None: from all images. query_file: ids of the queries, one a line, in place of a draw.
    """

    name: str
    collection: Path
    served_as: str
    a: Method
    b: Method
    k: int = 10
    queries: int = 40
    label: str | None = None
    where: tuple[str, ...] = ()
    query_file: Path | None = None
    readers: int = 2
    judge_images: bool = False
    same_patient: bool = False
    seed: int = 0


def check_design(design: StudyDesign) -> None:
    """Raise InvalidInput for choices that cannot be stored."""
    if not NAME.fullmatch(design.name):
        raise InvalidInput(
            f"study {design.name!r}: at most 60 letters, digits, - and _, for the address /study/{design.name}"
        )
    if (design.a.rerank, design.a.parameters) == (design.b.rerank, design.b.parameters):
        raise InvalidInput(f"--a and --b are the same method, {design.a.name}")
    if design.query_file and (design.label or design.where):
        raise InvalidInput("--query-file names the queries; omit --label and --where, which draw them")


def design_items(
    design: StudyDesign, settings: Settings, jobs: int, progress: Progress
) -> tuple[ReaderStudy, list[StudyItem]]:
    """Draw the queries and search with both methods; store what this returns by `add_study`.

    Parameters
    ----------
    design : StudyDesign
    settings : Settings
        Of the searches.
    jobs : int
        Processes.
    progress : callable
        Gets the stage, steps done and steps in all.

    Raises
    ------
    InvalidInput, NotFound
    """
    check_design(design)
    with (
        Collection(design.collection) as collection,
        open_search_pool(design.collection, settings, jobs) as pool,
    ):
        candidates = select_candidates(collection)
        queries = (
            _read_queries(design.query_file, collection) if design.query_file else _draw(design, collection)
        )
        lists = [
            _search(method, queries, candidates, pool, design, progress) for method in (design.a, design.b)
        ]
    items = [
        StudyItem(number, query.image_id, a, b)
        for number, (query, a, b) in enumerate(zip(queries, *lists, strict=True), start=1)
    ]
    study = ReaderStudy(
        design.name, design.served_as, design.a.name, design.b.name, design.k, len(items), design.readers,
        design.judge_images, design.seed, secrets.token_bytes(16),
    )  # fmt: skip
    return study, items


def _read_queries(path: Path, collection: Collection) -> list[Record]:
    try:
        ids = list(dict.fromkeys(path.read_text(encoding="utf-8").split()))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--query-file {path} cannot be read: {error}") from error
    if not 1 <= len(ids) <= MAX_ITEMS:
        raise InvalidInput(f"--query-file {path}: 1 to {MAX_ITEMS} image ids, one a line, not {len(ids)}")
    records = collection.records_by_id(ids)
    if missing := [image for image in ids if image not in records]:
        raise InvalidInput(f"--query-file {path}: the collection has no image {', '.join(missing[:5])}")
    return [records[image] for image in ids]


def _draw(design: StudyDesign, collection: Collection) -> list[Record]:
    """Draw from the values of the label in turn; by image id, so that the order of indexing has no influence."""
    records = sorted(select_candidates(collection, design.where).records, key=lambda record: record.image_id)
    relevance = parse_relevance(design.label or EVERY)
    labels = [record.labels if design.label else {EVERY: EVERY} for record in records]
    rows = sample_queries(labels, relevance, design.queries, design.seed)
    return [records[row] for row in rows]


def _search(
    method: Method,
    queries: Sequence[Record],
    candidates: Candidates,
    pool: SearchPool,
    design: StudyDesign,
    progress: Progress,
) -> list[tuple[str, ...]]:
    tasks = []
    for query in queries:
        patient = None if design.same_patient else query.patient_key
        request = Request(
            k=design.k, rerank=method.rerank, parameters=method.parameters, exclude_patient_key=patient
        )
        tasks.append(SearchTask(query.image_id, None, query.content_hash, request))
    return pool.search_ids(tasks, candidates, lambda done: progress(method.name, done, len(tasks)))
