"""Each re-ranker with its whole-collection work on the device: passes over all vectors there, the rest here.

What looks at the best places alone runs as it is, on a list cut down to places enough.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.gallery.gallery import Gallery, Rows
from cbir.gallery.ranking import RankingList, best
from cbir.gpu import expansion as expansions
from cbir.gpu.found import Found, looked_at, of_head
from cbir.gpu.graph import DeviceGraph
from cbir.gpu.ranking import SLACK, DeviceList, at_least, at_ranks
from cbir.gpu.vectors import DeviceVectors
from cbir.rerank import negatives
from cbir.rerank.aqe import AlphaQueryExpansion
from cbir.rerank.base import Reranked, Reranker
from cbir.rerank.diffusion import COVERED, Diffusion, Flow, scores_of
from cbir.rerank.ensemble import Examples
from cbir.rerank.eprf import TIE, Eprf, Relevance
from cbir.rerank.expansion import REFINED, KernelExpansion
from cbir.rerank.nprf import NegativeFeedback
from cbir.rerank.pearson import References, update
from cbir.threads import OneBlasThread

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Question:
    """A query (d,) float32, and where and among what it is asked.

    allowed: (n,) bool on the device, None for all rows; count: how many. k: answers wanted, count at most.
    graph: gives the gallery's graph as it lies on the device.
    """

    query: Floats
    gallery: Gallery
    vectors: DeviceVectors
    allowed: Tensor | None
    count: int
    k: int
    graph: Callable[[], DeviceGraph]

    def listed(self, query: Floats | None = None, products: Tensor | None = None) -> DeviceList:
        """The ranking list of the query, or of another in its place."""
        asked = self.query if query is None else query
        return DeviceList(asked, self.gallery, self.vectors, self.allowed, self.count, products)


def answer(member: Reranker, question: Question) -> Found | None:
    """What `member` finds; None where it cannot be found on the device and the processor must do it."""
    if isinstance(member, Diffusion):
        return _diffusion(member, question)
    listed = question.listed()
    if not listed.tells_apart():
        return None
    with OneBlasThread():
        if isinstance(member, Eprf):
            return _eprf(member, question, listed)
        if isinstance(member, NegativeFeedback):
            return _nprf(member, question, listed)
        if isinstance(member, AlphaQueryExpansion):
            listed_again = question.listed(
                member.expanded(question.query, listed.head(member.P), question.gallery)
            )
            return _aqe(question, listed, listed_again)
    places = looked_at(member)
    if places is None:
        return None
    return of_head(member, question.query, listed.head(places + question.k), question.gallery, question.k)


def _aqe(question: Question, listed: DeviceList, listed_again: DeviceList) -> Found | None:
    """The second list's order with the distances of the first."""
    if not listed_again.tells_apart():
        return None
    head = listed_again.head(question.k)
    places = best(head.similarities, question.k)
    rows = head.rows[places]
    distances = question.gallery.exact_distances(question.query, rows)
    return Found(rows, head.similarities[places], distances, Reranked(head.similarities))


def _eprf(member: Eprf, question: Question, listed: DeviceList) -> Found | None:
    gallery, query = question.gallery, question.query
    head = listed.head(max(member.N, 2 * member.K + member.P, REFINED))
    references = References(query, head, gallery, member.N)
    updated = head.similarities
    if member.similarity_update:
        updated = update(head, references, gallery, member.K, member.lam)
    scores = listed.similarities()
    scores[listed.on_device(head.rows)] = listed.on_device(updated)
    drawn = _drawn(
        question, scores, P=member.P, sets=member.T1 + member.T2, lowest=member.lowest, seed=member.seed
    )
    if drawn.shape[1] < member.P:
        return None
    positives = head.rows[best(updated, member.P)]
    examples = _examples(question, positives, drawn, member.gamma, with_query=False)
    return _ranked(question, member.expansion(examples, references, gallery.vectors(positives)), scores)


def _nprf(member: NegativeFeedback, question: Question, listed: DeviceList) -> Found | None:
    head = listed.head(max(member.P, REFINED))
    scores, wanted = listed.similarities(), member.P + 1
    drawn = _drawn(question, scores, P=wanted, sets=member.T, lowest=member.lowest, seed=member.seed)
    if drawn.shape[1] < wanted:
        return None
    positives = head.rows[best(head.similarities, member.P)]
    examples = _examples(question, positives, drawn, member.gamma, with_query=True)
    membership = np.ones(len(positives) + 1)
    return _ranked(question, examples.train(slice(None), member.C, membership).sum(), scores)


def _drawn(question: Question, scores: Tensor, **drawing: Any) -> NDArray[np.int64]:
    """Rows (sets, q) of the negatives that `negatives.draw` would name."""
    pool, ranks = negatives.draw_ranks(question.query, question.count, **drawing)
    return at_ranks(scores, pool, ranks) if pool else np.empty((len(ranks), 0), np.int64)


def _examples(
    question: Question, positives: Rows, drawn: NDArray[np.int64], gamma: float, with_query: bool
) -> Examples:
    """The training sets, of a list that is cut down to the images in them."""
    rows = np.unique(np.concatenate([positives, drawn.ravel()]))
    unknown = np.zeros(len(rows), np.float32)
    return Examples(
        np.searchsorted(rows, positives), np.searchsorted(rows, drawn), question.query,
        RankingList(rows, unknown, unknown), question.gallery, gamma / question.gallery.dimensions, with_query,
    )  # fmt: skip


def _ranked(question: Question, expansion: KernelExpansion, before: Tensor) -> Found:
    """The best by the expansion; those are computed again in float64, and the list before decides among equals."""
    values = expansions.values(expansion, question.vectors)
    if question.allowed is not None:
        values.masked_fill_(~question.allowed, -torch.inf)
    rounding = 1e-6 * float(np.abs(expansion.coefficients).sum())
    count = min(max(REFINED, question.k) + SLACK, question.count)
    rows = at_least(values, count, rounding)
    earlier = before[torch.from_numpy(rows).to(before.device)].cpu().numpy()
    scores = expansion.exact_values(question.gallery.vectors(rows)).astype(np.float32) + TIE * earlier.astype(
        float
    )
    places = best(scores, question.k)
    distances = question.gallery.exact_distances(question.query, rows[places])
    return Found(rows[places], scores[places], distances, Relevance(scores))


def _diffusion(member: Diffusion, question: Question) -> Found | None:
    gallery, query = question.gallery, question.query
    if gallery.neighbourhood is None or question.count < COVERED * len(gallery):
        return None
    graph = question.graph()
    unit, _ = gallery.space.place(query[None, :])
    towards = gallery.space.projection @ unit[0]
    products = question.vectors.products(np.stack([query, towards], axis=1))  # of both lists, in one pass
    cosines = (products[:, 1] - float(gallery.space.centre @ towards)) / graph.lengths[: len(gallery)]
    squared = torch.full((len(graph),), torch.inf, device=products.device)
    squared[: len(gallery)] = (2.0 - 2.0 * cosines).clamp_(min=0.0)
    if question.allowed is not None:
        squared[: len(gallery)].masked_fill_(~question.allowed, torch.inf)
    reached, arrived = graph.spread(member, squared)
    rows, similarities = reached.cpu().numpy(), np.zeros(len(reached), np.float32)
    apart, flowed = squared[reached].cpu().numpy(), arrived.cpu().numpy()
    places = np.arange(len(rows))
    if len(rows) < question.k:
        listed = question.listed(products=products[:, 0])
        if not listed.tells_apart():
            return None
        head = listed.head(question.k + len(rows))
        own = rows
        rows = np.union1d(own, head.rows)
        similarities = np.zeros(len(rows), np.float32)
        similarities[np.searchsorted(rows, head.rows)] = head.similarities
        places = np.searchsorted(rows, own)
    scores = scores_of(flowed, apart, places, similarities)
    chosen = best(scores, question.k)
    distances = gallery.exact_distances(query, rows[chosen])
    return Found(rows[chosen], scores[chosen], distances, Flow(scores))
