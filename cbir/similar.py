"""Search for instances, series or studies similar to an instance, a series or a study of the collection."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cbir.dicom_levels import Combination, ImageGroup, Level, group_hits
from cbir.errors import NotFound
from cbir.search import MAX_EXAMPLES, Request, RerankFacts, Searcher, Stopwatch
from cbir.store import Record
from cbir.store.dicom_instances import DicomScope

DEPTH = 100  # images of each list that count at level series or study


class Exclude(StrEnum):
    """Part of the query's own patient to leave out of the answers; each level contains the one before."""

    instance = "instance"
    series = "series"
    study = "study"
    patient = "patient"


@dataclass(frozen=True)
class SimilarRequest:
    """Parameters of a search for similar cases.

    exclude: at least what `level` says, since nothing is an answer to itself.
    depth: images of each list that count; None for DEPTH, at level instance for the settings' `max_results`.
    """

    level: Level = Level.instance
    combine: Combination = Combination.max
    exclude: Exclude = Exclude.instance
    depth: int | None = None
    rerank: str | None = None
    where: Sequence[str] = ()


@dataclass(frozen=True)
class SimilarGroups:
    """Similar cases, best first. queries: the images that were searched with."""

    groups: list[ImageGroup]
    queries: list[Record]
    reranking: RerankFacts
    timings_ms: dict[str, float]


def find_similar(
    searcher: Searcher, scope: DicomScope, request: SimilarRequest, watch: Stopwatch
) -> SimilarGroups:
    """Search with at most MAX_EXAMPLES images of a scope, evenly spread, each by itself, and combine the lists.

    Parameters
    ----------
    searcher : Searcher
        Search of the collection.
    scope : DicomScope
        Instance, series or study to search with.
    request : SimilarRequest
        Parameters of the search.
    watch : Stopwatch
        Times the stages.

    Raises
    ------
    NotFound
        If the collection has no image of `scope`.
    """
    queries = _query_records(searcher, scope)
    requests = [_image_request(searcher, scope, record, request) for record in queries]
    answers = [searcher.by_id(r.image_id, each, watch) for r, each in zip(queries, requests, strict=True)]
    groups = group_hits([answer.results for answer in answers], request.level, request.combine)
    return SimilarGroups(groups, queries, answers[-1].rerank, answers[-1].timings_ms)


def _query_records(searcher: Searcher, scope: DicomScope) -> list[Record]:
    numbers = np.array(searcher.collection.numbers_in(scope), np.int64)
    spread = np.linspace(0, len(numbers) - 1, min(len(numbers), MAX_EXAMPLES)).round().astype(int)
    queries = numbers[np.unique(spread)].tolist()
    records = searcher.collection.records(queries)
    if not records:
        level = "instance" if scope.instance else "series" if scope.series else "study"
        uid = getattr(scope, level)
        raise NotFound(f"there is no image of the {level} {uid} in the collection")
    return [records[number] for number in queries if number in records]


def _image_request(searcher: Searcher, scope: DicomScope, record: Record, request: SimilarRequest) -> Request:
    """Return the request for one image of `scope`, which excludes the scope at least."""
    most = searcher.settings.max_results
    depth = request.depth or (most if request.level is Level.instance else DEPTH)
    excluded = max(list(Exclude).index(request.exclude), list(Level).index(request.level))
    return Request(
        k=min(depth, most),
        rerank=request.rerank,
        where=list(request.where),
        exclude_patient_key=record.patient_key if request.exclude is Exclude.patient else None,
        outside=DicomScope(
            scope.study, scope.series if excluded < 2 else "", scope.instance if excluded < 1 else ""
        ),
    )
