"""Message of the similar cases that a search has returned, for the HTTP API and `cbir similar`."""

from cbir.search.dicom_levels import ImageGroup, Level, MatchingSlice, group_key
from cbir.store.records.filter_conditions import DicomScope
from service.client.messages import SimilarAnswer, SimilarPlace, SimilarQuery, SliceMatch
from service.features.similar.similar import SimilarGroups, SimilarRequest


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
