"""Search for instances, series or studies similar to one of the collection, and its message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cbir.errors import InvalidInput, NotFound
from cbir.gallery.vector_blocks import Rows
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search import MAX_EXAMPLES, Answer, Request, RerankFacts, Searcher, Stopwatch
from cbir.search.dicom_levels import (
    Combination,
    Exclude,
    ImageGroup,
    Level,
    MatchingSlice,
    group_hits,
    group_key,
)
from cbir.search.slice_matching import load_groups, rank_groups
from cbir.store import Record
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.views.collection_view import View
from service.features.similar.messages import SimilarAnswer, SimilarPlace, SimilarQuery, SliceMatch

DEPTH = 100  # images of each list that count at level series or study
MAX_SLICES = 100  # images of the query with maxsim, which costs less for each


@dataclass(frozen=True)
class SimilarRequest:
    """Parameters of a search for similar cases.

    exclude: at least what `level` says, since nothing is an answer to itself.
    depth: images of each list that count; None for DEPTH, at level instance for the settings' `max_results`.
    offset, limit: page of the groups, best first; a limit of None for the settings' `max_results`.
    maxsim compares all images by their distances, so depth and re-rankers are refused with it.
    """

    level: Level = Level.instance
    combine: Combination = Combination.max
    exclude: Exclude = Exclude.instance
    depth: int | None = None
    rerank: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    where: Sequence[str] = ()
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class SimilarGroups:
    """A page of similar cases, best first. total: on all pages. queries: the images that were searched with."""

    groups: list[ImageGroup]
    total: int
    queries: list[Record]
    reranking: RerankFacts
    timings_ms: dict[str, float]


def find_similar(
    searcher: Searcher, scope: DicomScope, request: SimilarRequest, watch: Stopwatch
) -> SimilarGroups:
    """Search for cases similar to a scope.

    At most MAX_EXAMPLES of its images, evenly spread, are searched with, each by itself, and their lists combined.
    With maxsim, at most MAX_SLICES are compared with all images.

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
    InvalidInput
        For a parameter that has no meaning with maxsim.
    """
    page = slice(request.offset, request.offset + _limit(searcher, request))
    if request.combine == Combination.maxsim:
        return _find_by_slices(searcher, scope, request, page, watch)
    queries, answers = search_each_image(searcher, scope, request, watch)
    groups = group_hits([answer.results for answer in answers], request.level, request.combine)
    return SimilarGroups(groups[page], len(groups), queries, answers[-1].rerank, answers[-1].timings_ms)


def search_each_image(
    searcher: Searcher, scope: DicomScope, request: SimilarRequest, watch: Stopwatch
) -> tuple[list[Record], list[Answer]]:
    """Search with at most MAX_EXAMPLES images of a scope, each by itself; return them and the answers.

    Parameters
    ----------
    searcher, scope, request, watch
        As for `find_similar`.
    """
    queries = [*_query_records(searcher, scope, MAX_EXAMPLES).values()]
    requests = [_image_request(searcher, scope, record, request) for record in queries]
    answers = [searcher.by_id(r.image_id, each, watch) for r, each in zip(queries, requests, strict=True)]
    return queries, answers


def _limit(searcher: Searcher, request: SimilarRequest) -> int:
    most = searcher.settings.max_results
    return most if request.limit is None else min(request.limit, most)


def _find_by_slices(
    searcher: Searcher, scope: DicomScope, request: SimilarRequest, page: slice, watch: Stopwatch
) -> SimilarGroups:
    if request.rerank not in (None, NoReranking.name):
        raise InvalidInput(
            f"rerank: {request.rerank} does not combine with maxsim, which compares images by their distances; "
            "leave rerank out"
        )
    if request.parameters:
        raise InvalidInput("parameters: maxsim does not re-rank; leave them out")
    if request.depth is not None:
        raise InvalidInput("depth: maxsim counts every image; leave depth out")
    searcher.vectors.require_whole("combine=maxsim")
    queries = _query_records(searcher, scope, MAX_SLICES)
    view = searcher.collection.view()
    numbers = np.array(sorted(queries), np.int64)
    query_rows = view.rows_of(numbers)
    if not len(query_rows):
        raise _no_image(scope)
    rows = _rows_to_compare(searcher, view, scope, [*queries.values()], request)
    ranked, total = rank_groups(searcher.collection, view, query_rows, rows, request.level, page)
    watch.lap("search")
    groups = load_groups(searcher, view.gallery.ids[query_rows], ranked, page.start + 1)
    facts = RerankFacts(method=NoReranking.name, parameters={}, scope="collection", notes=())
    return SimilarGroups(groups, total, [*queries.values()], facts, watch.done())


def _rows_to_compare(
    searcher: Searcher, view: View, scope: DicomScope, queries: Sequence[Record], request: SimilarRequest
) -> Rows:
    """Return the rows that the request does not exclude, ascending."""
    collection, outside = searcher.collection, _excluded_scope(scope, request)
    keys: set[str | None] = {None}
    if request.exclude is Exclude.patient:
        keys = {record.patient_key for record in queries}
    excluded = [collection.excluded_rows(view, outside=outside, exclude_patient_key=key) for key in keys]
    matching = collection.matching_rows(view, collection.conditions(request.where))
    rows = view.select(matching, np.unique(np.concatenate(excluded)))
    return np.arange(len(view.gallery), dtype=np.int64) if rows is None else rows


def _query_records(searcher: Searcher, scope: DicomScope, most: int) -> dict[int, Record]:
    """Return at most `most` records of a scope, evenly spread, by number in the order of their UIDs."""
    numbers = np.array(searcher.collection.numbers_in(scope), np.int64)
    spread = np.linspace(0, len(numbers) - 1, min(len(numbers), most)).round().astype(int)
    queries = numbers[np.unique(spread)].tolist()
    records = searcher.collection.records(queries)
    if not records:
        raise _no_image(scope)
    return {number: records[number] for number in queries if number in records}


def _no_image(scope: DicomScope) -> NotFound:
    level = "instance" if scope.instance else "series" if scope.series else "study"
    return NotFound(f"there is no image of the {level} {getattr(scope, level)} in the collection")


def _image_request(searcher: Searcher, scope: DicomScope, record: Record, request: SimilarRequest) -> Request:
    """Return the request for one image of `scope`, which excludes the scope at least."""
    most = searcher.settings.max_results
    depth = request.depth or (most if request.level is Level.instance else DEPTH)
    return Request(
        k=min(depth, most),
        rerank=request.rerank,
        parameters=dict(request.parameters),
        where=list(request.where),
        exclude_patient_key=record.patient_key if request.exclude is Exclude.patient else None,
        outside=_excluded_scope(scope, request),
    )


def _excluded_scope(scope: DicomScope, request: SimilarRequest) -> DicomScope:
    excluded = max(list(Exclude).index(request.exclude), list(Level).index(request.level))
    return DicomScope(
        scope.study, scope.series if excluded < 2 else "", scope.instance if excluded < 1 else ""
    )


def similar_message(scope: DicomScope, request: SimilarRequest, similar: SimilarGroups) -> SimilarAnswer:
    """Return the message of a page of similar cases.

    Parameters
    ----------
    scope : DicomScope
        The query.
    request : SimilarRequest
        Parameters of the search.
    similar : SimilarGroups
        Its result.
    """
    ranked = enumerate(similar.groups, start=request.offset + 1)
    return SimilarAnswer(
        query=SimilarQuery(
            study=scope.study,
            series=scope.series or None,
            instance=scope.instance or None,
            images=len(similar.queries),
        ),
        level=request.level,
        combine=request.combine,
        exclude=request.exclude,
        total=similar.total,
        results=[_result(request.level, rank, group) for rank, group in ranked],
        rerank=similar.reranking,
        timings_ms=similar.timings_ms,
    )


def _result(level: Level, rank: int, group: ImageGroup) -> SimilarPlace:
    study, *below = group_key(group.best, level)
    series, instance = [*below, None, None][:2]
    return SimilarPlace(
        rank=rank,
        score=group.score,
        found=group.count,
        study=study,
        series=series,
        instance=instance,
        best=group.best,
        matches=[_slice_match(match) for match in group.matches],
    )


def _slice_match(match: MatchingSlice) -> SliceMatch:
    return SliceMatch(
        query=match.query.image_id,
        image_id=match.image.image_id,
        instance=match.image.instance,
        frame=match.image.frame,
        score=match.similarity,
    )
