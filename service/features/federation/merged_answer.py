"""One answer from those of several sites: whose each image is, and what each site contributed."""

import math
from collections.abc import Sequence

from cbir.search import Answer, Hit, Links
from cbir.search.answer import QueryFacts, SiteReport
from cbir.search.hit_selection import label_agreements
from service.features.federation.ask_sites import SiteOutcome
from service.features.federation.exchange.merge import (
    merge_by_distance,
    merge_by_rank,
    reserved_places,
    score_of_distance,
)
from service.features.federation.exchange.site_messages import FederatedHit

PLACES_KEPT = "{} places are kept for its images, although others are said to be nearer"
RANKS_MERGED = "each site has re-ranked its own images, and their ranks are merged"


def merge_answers(
    local: Answer, images: int, outcomes: Sequence[SiteOutcome], k: int, reranked: bool
) -> Answer:
    """Return the answer of this service merged with those of others.

    Parameters
    ----------
    local : Answer
        Answer of this service.
    images : int
        Number of images that it searched among.
    outcomes : sequence of SiteOutcome
        How asking each other site ended.
    k : int
        Number of results.
    reranked : bool
        Whether the sites have re-ranked: then ranks are merged, else distances.
    """
    lists = [local.results]
    lists += [
        [_hit_of(outcome.name, hit) for hit in outcome.reply.hits] if outcome.reply else []
        for outcome in outcomes
    ]
    reserved = reserved_places(sum(map(bool, lists)), k)
    merged = merge_by_rank(lists, k) if reranked else merge_by_distance(lists, k, reserved)
    hits = [_placed(hit, rank, reranked) for rank, hit in enumerate(merged, 1)]
    reports = [_report(None, hits, images, local.timings_ms.get("total", 0.0))]
    for outcome in outcomes:
        reply = outcome.reply
        report = _report(outcome.name, hits, reply.images if reply else None, outcome.milliseconds)
        notes = list(reply.notes) if reply else []
        reports.append(report.model_copy(update={"problem": outcome.problem, "notes": notes}))
    if not reranked and merged != merge_by_distance(lists, k):
        note = PLACES_KEPT.format(reserved)
        reports = [
            report.model_copy(update={"notes": [*report.notes, note]})
            if report.results == reserved
            else report
            for report in reports
        ]
    facts = local.rerank
    if reranked:
        facts = facts.model_copy(update={"notes": (*facts.notes, RANKS_MERGED)})
    slowest = max((outcome.milliseconds for outcome in outcomes), default=0.0)
    timings = {name: time for name, time in local.timings_ms.items() if name != "total"}
    total = local.timings_ms.get("total", 0.0) + slowest
    return local.model_copy(
        update={
            "query": _without_likeness(local) if _is_nearer_elsewhere(lists) else local.query,
            "results": hits,
            "sites": reports,
            "rerank": facts,
            "agreement": label_agreements(hits, {}),
            "timings_ms": {**timings, "sites": slowest, "total": total},
        }
    )


def _is_nearer_elsewhere(lists: Sequence[Sequence[Hit]]) -> bool:
    """Return whether another site has an image that is nearer than the nearest of this one."""
    own, *others = (min((hit.distance for hit in hits), default=math.inf) for hits in lists)
    return min(others, default=math.inf) < own


def _without_likeness(local: Answer) -> QueryFacts:
    """Return the facts without how like the images of this site the query is: the results are others."""
    return local.query.model_copy(update={"likeness": None, "outlier": None})


def _hit_of(site: str, hit: FederatedHit) -> Hit:
    """Return the hit of another site. It has no addresses here, and no patient."""
    picture = f"data:image/jpeg;base64,{hit.thumbnail}" if hit.thumbnail else ""
    return Hit(
        rank=0,
        image_id=hit.image_id,
        score=hit.score or 0.0,
        distance=hit.distance,
        labels=hit.labels,
        patient=None,
        dicom=None,
        links=Links(thumbnail=picture, image=""),
        site=site,
    )


def _placed(hit: Hit, rank: int, reranked: bool) -> Hit:
    score = 1.0 / rank if reranked else score_of_distance(hit.distance)
    return hit.model_copy(update={"rank": rank, "score": score})


def _report(name: str | None, hits: Sequence[Hit], images: int | None, milliseconds: float) -> SiteReport:
    results = sum(hit.site == name for hit in hits)
    return SiteReport(
        name=name, images=images, results=results, problem="", notes=[], milliseconds=round(milliseconds, 1)
    )
