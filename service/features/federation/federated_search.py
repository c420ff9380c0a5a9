"""A search of this service's own that also asks other sites, and the one answer from all of theirs."""

import heapq
import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol, TypeVar

from cbir.gallery.vector_blocks import Floats
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search import Answer, Hit, Links
from cbir.search.answer import QueryFacts, SiteReport
from cbir.search.hit_selection import label_agreements
from cbir.settings import Settings
from cbir.store import Collection
from service.features.federation.site_agreement import site_profile
from service.features.federation.site_client import FederatedRequest, SiteClient, SiteOutcome, ask_sites
from service.features.federation.site_messages import FederatedHit

PLACES_KEPT = "{} places are kept for its images, although others are said to be nearer"
RANKS_MERGED = "each site has re-ranked its own images, and their ranks are merged"


class HasDistance(Protocol):
    """A hit of a site."""

    @property
    def distance(self) -> float:
        """Euclidean distance from the query."""


AnyHit = TypeVar("AnyHit", bound=HasDistance)


def reserved_places(sites: int, k: int) -> int:
    """Return the places among k results that each of several sites keeps: half of all are shared out evenly.

    One at least, where there is one for each: a site that claims distances of 0 cannot take every place.
    """
    return max(k // (2 * sites), int(k >= sites)) if sites > 1 else 0


def merge_by_distance(sites: Sequence[Sequence[AnyHit]], k: int, reserved: int = 0) -> list[AnyHit]:
    """Return the k nearest images; of equal distances those of the first site first, in the order of the site.

    It is the order of a collection to which the images of all sites were added, one site after another, but that
    images with the same vector are not put side by side: sites do not tell which these are. The nearer
    half is of the nearest images, whose ever they are. Where a site has fewer than its `reserved` places, its nearest
    images take those of the last ones of other sites; if there are not enough for all, the nearer images get them.

    Parameters
    ----------
    sites : sequence of sequences of hits
        Hits of each site, nearest first.
    k : int
        Number of hits; fewer where there are no more.
    reserved : int
        Places that each site keeps, see `reserved_places`.
    """
    numbered = [[(hit, position < reserved) for position, hit in enumerate(hits)] for hits in sites]
    merged = list(heapq.merge(*numbered, key=lambda item: item[0].distance))
    by_claim = sorted(range(len(merged)), key=lambda place: (place >= k // 2, not merged[place][1]))
    return [merged[place][0] for place in sorted(by_claim[:k])]


def merge_by_rank(sites: Sequence[Sequence[AnyHit]], k: int) -> list[AnyHit]:
    """Return k images in the order of their ranks at their sites; of equal ranks the nearer one first.

    Scores of re-rankers are relative to the images of one site, so they are not compared. No site can take more than
    its share of the first ranks.

    Parameters
    ----------
    sites : sequence of sequences of hits
        Hits of each site, best first.
    k : int
        Number of hits; fewer where there are no more.
    """
    ranked = [
        ((rank, hit.distance, site), hit) for site, hits in enumerate(sites) for rank, hit in enumerate(hits)
    ]
    return [hit for _, hit in sorted(ranked, key=itemgetter(0))[:k]]


def score_of_distance(distance: float) -> float:
    """Return a score in (0, 1] that depends on nothing but the distance, so that no site changes another's."""
    return 1.0 / (1.0 + distance)


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


def method_for_sites(name: str | None) -> str:
    """Return the re-ranker that all sites use: none unless the search names one, since `auto` differs by site."""
    return NoReranking.name if name in (None, "auto") else name


def search_sites(
    clients: Sequence[SiteClient],
    collection: Collection,
    settings: Settings,
    vector: Floats,
    request: FederatedRequest,
    local: Answer,
    sent: list[str],
) -> Answer:
    """Ask other sites and return the merged answer.

    Parameters
    ----------
    clients : sequence of SiteClient
        Sites to ask.
    collection : Collection
        Collection that was searched here.
    settings : Settings
        Settings of this service.
    vector : (d,) float32
        Raw query vector.
    request : FederatedRequest
        The search.
    local : Answer
        Its answer here.
    sent : list of str
        What leaves this site is added to it, also if the search ends by an error, for the audit log.
    """
    own_profile = site_profile(collection, settings)
    outcomes = ask_sites(clients, vector, request, own_profile, sent)
    reranked = request.rerank != NoReranking.name
    return merge_answers(local, own_profile.images, outcomes, request.k, reranked)
