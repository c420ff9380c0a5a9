"""Re-rankers by name: a new one is a file and a line here."""

from dataclasses import fields
from typing import Any

from cbir.errors import InvalidInput
from cbir.rerank.aqe import AlphaQueryExpansion
from cbir.rerank.base import Reranked, Reranker
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.eprf import Eprf, NoSimilarityUpdate, PlainEnsemble
from cbir.rerank.k_reciprocal import KReciprocal
from cbir.rerank.none import NoReranking
from cbir.rerank.nprf import NegativeFeedback
from cbir.rerank.pc import PostRetrievalClustering
from cbir.rerank.pearson import Pearson

__all__ = ["Reranked", "Reranker", "get", "names", "parameters"]

MEMBERS: tuple[type[Any], ...] = (
    NoReranking,
    Diffusion,
    Pearson,
    Eprf,
    NoSimilarityUpdate,
    PlainEnsemble,
    PostRetrievalClustering,
    NegativeFeedback,
    KReciprocal,
    AlphaQueryExpansion,
)
AUTO = Diffusion.name  # the best on real images, whatever the size of their classes: docs/rerank.md


def resolved(name: str) -> str:
    """`name`, or what "auto" stands for."""
    return AUTO if name == "auto" else name


def names() -> tuple[str, ...]:
    """What `get` knows; "none" is the order of the distances."""
    return tuple(member.name for member in MEMBERS)


def parameters(name: str) -> tuple[str, ...]:
    """The names of a re-ranker's parameters; raises InvalidInput for an unknown re-ranker."""
    return tuple(field.name for field in fields(_member(name)))


def get(name: str, **parameters: Any) -> Reranker:
    """The re-ranker called `name`, or the best one for "auto", with `parameters` in place of its defaults.

    Raises InvalidInput, which lists what there is, for an unknown name or parameter or a value out of range.
    """
    member = _member(name)
    known = [field.name for field in fields(member)]
    unknown = [parameter for parameter in parameters if parameter not in known]
    if unknown:
        has = f"it has: {', '.join(known)}" if known else "it has none"
        raise InvalidInput(f"{name} has no parameter {unknown[0]!r}; {has}")
    reranker: Reranker = member(**parameters)
    return reranker


def _member(name: str) -> type[Any]:
    for member in MEMBERS:
        if member.name == resolved(name):
            return member
    raise InvalidInput(f"there is no re-ranker {name!r}; there are: auto, {', '.join(names())}")
