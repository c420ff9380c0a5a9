"""A search of this service's own that also asks other sites."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search import Answer
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.records.filter_conditions import Condition, parse_filter, parse_filters
from service.features.federation.answer_site import site_profile
from service.features.federation.ask_sites import ask_sites
from service.features.federation.merged_answer import merge_answers
from service.features.federation.site_client import SiteClient, SiteQuery


@dataclass(frozen=True)
class FederatedRequest:
    """Search for all sites: number of results, conditions, re-ranker and its parameters.

    limits: conditions of the caller's rights, which hold for the images of other sites too.
    """

    k: int
    where: list[str] = field(default_factory=list)
    rerank: str = NoReranking.name
    parameters: dict[str, Any] = field(default_factory=dict)
    limits: tuple[str, ...] = ()

    @property
    def where_and_limits(self) -> list[str]:
        """The conditions as they are sent: of one label, `key=value` of `where` would widen that of the limits."""
        fixed = {limit.key for limit in map(parse_filter, self.limits) if limit.operator == "="}
        allowed = [
            text
            for text in self.where
            if (parsed := parse_filter(text)).operator != "=" or parsed.key not in fixed
        ]
        return [*self.limits, *allowed]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions, each of which a result must fulfil."""
        return (*map(parse_filter, self.limits), *parse_filters(self.where))


def method_for_sites(name: str | None) -> str:
    """Return the re-ranker that all sites use: none unless the search names one, since `auto` differs by site."""
    return NoReranking.name if name in (None, "auto") else name


def require_one_vector(vectors: Sequence[Floats]) -> Floats:
    """Return the vector to send; raises InvalidInput for several, which would be several queries."""
    if len(vectors) != 1:
        raise InvalidInput("federated: other sites are asked with one image or vector; send one")
    return vectors[0]


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
    query = SiteQuery(
        vector.astype(float).tolist(),
        request.k,
        request.where_and_limits,
        request.rerank,
        request.parameters,
        request.conditions,
    )
    outcomes = ask_sites(clients, query, own_profile, sent)
    reranked = request.rerank != NoReranking.name
    return merge_answers(local, own_profile.images, outcomes, request.k, reranked)
