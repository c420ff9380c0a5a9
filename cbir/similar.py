"""What is like an instance, a series or a study of the collection: instances, series or studies."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cbir.dicom_levels import Combination, ImageGroup, Level, group_hits
from cbir.errors import NotFound
from cbir.search import MOST_EXAMPLES, Request, RerankFacts, Searcher, Stopwatch
from cbir.store import Record
from cbir.store.dicom_instances import DicomScope

DEPTH = 100  # images of a list that count where series or studies are asked for


class Exclude(StrEnum):
    """What of the query's is left out of the answers; each holds the one before."""

    instance = "instance"
    series = "series"
    study = "study"
    patient = "patient"


@dataclass(frozen=True)
class SimilarOptions:
    """exclude: at least what `level` says, since nothing is an answer to itself.

    depth: images of each list that count; None for DEPTH, at level instance as many as may be answered.
    """

    level: Level = Level.instance
    combine: Combination = Combination.max
    exclude: Exclude = Exclude.instance
    depth: int | None = None
    rerank: str | None = None
    where: Sequence[str] = ()


@dataclass(frozen=True)
class SimilarGroups:
    """groups: all that were found, best first. queries: the images that were searched with."""

    groups: list[ImageGroup]
    queries: list[Record]
    how: RerankFacts
    timings_ms: dict[str, float]


def find_similar(
    searcher: Searcher, scope: DicomScope, wanted: SimilarOptions, watch: Stopwatch
) -> SimilarGroups:
    """What is most like the images in `scope`, of which at most MOST_EXAMPLES are searched with, evenly spread.

    Each is searched with by itself, and the lists are combined. Raises NotFound where the collection has none.
    """
    queries = _queries(searcher, scope)
    lists, total = [], dict[str, float]()
    for record in queries:
        answer = searcher.by_id(record.image_id, _request(searcher, scope, record, wanted), watch)
        lists.append(answer.results)
        total = answer.timings_ms
    groups = group_hits(lists, wanted.level, wanted.combine)
    return SimilarGroups(groups, queries, answer.rerank, total)


def _queries(searcher: Searcher, scope: DicomScope) -> list[Record]:
    numbers = searcher.collection.numbers_in(scope)
    places = np.unique(np.linspace(0, len(numbers) - 1, min(len(numbers), MOST_EXAMPLES)).round().astype(int))
    chosen = [numbers[place] for place in places]
    records = searcher.collection.records(chosen)
    found = [records[number] for number in chosen if number in records]
    if not found:
        what, uid = ("study", scope.study)
        if scope.series:
            what, uid = ("instance", scope.instance) if scope.instance else ("series", scope.series)
        raise NotFound(f"there is no image of the {what} {uid} in the collection")
    return found


def _request(searcher: Searcher, scope: DicomScope, record: Record, wanted: SimilarOptions) -> Request:
    most = searcher.settings.max_results
    depth = wanted.depth or (most if wanted.level is Level.instance else DEPTH)
    return Request(
        k=min(depth, most),
        rerank=wanted.rerank,
        where=list(wanted.where),
        exclude_patient=record.patient_key if wanted.exclude is Exclude.patient else None,
        outside=_outside(scope, wanted),
    )


def _outside(scope: DicomScope, wanted: SimilarOptions) -> DicomScope:
    """The query's own, as far as it is left out; the whole query at least."""
    level = max(list(Exclude).index(wanted.exclude), list(Level).index(wanted.level))
    return DicomScope(scope.study, scope.series if level < 2 else "", scope.instance if level < 1 else "")
