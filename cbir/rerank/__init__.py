"""Registry of re-rankers: a new one is a class in this package and a line in RERANKERS.

The package can be called: `cbir.rerank(query_vectors, gallery_vectors, "eprf")` is `cbir.rerank_vectors`, whose help
has the parameters: `help(cbir.rerank_vectors)`.
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from cbir.errors import InvalidInput
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.diffusion_eprf import DiffusionEprf, FuzzyEprf
from cbir.rerank.eprf import Eprf, NegativeFeedback, NoSimilarityUpdate, PlainEnsemble
from cbir.rerank.k_reciprocal import KReciprocal
from cbir.rerank.pearson import Pearson
from cbir.rerank.reranker import Reranked, Reranker
from cbir.rerank.simple_rerankers import AlphaQueryExpansion, NoReranking, PostRetrievalClustering
from cbir.system.remedies import did_you_mean

__all__ = ["Reranked", "Reranker", "get", "get_tuned", "names", "reranker_class", "resolve_name"]

RERANKERS: tuple[type[Reranker], ...] = (
    NoReranking,
    Diffusion,
    Pearson,
    Eprf,
    NoSimilarityUpdate,
    PlainEnsemble,
    FuzzyEprf,
    DiffusionEprf,
    PostRetrievalClustering,
    NegativeFeedback,
    KReciprocal,
    AlphaQueryExpansion,
)
AUTO = Diffusion.name  # without a collection, which may have another choice: cbir.rerank.auto


def resolve_name(name: str) -> str:
    """Return `name`, or the re-ranker that "auto" stands for."""
    return AUTO if name == "auto" else name


def names() -> tuple[str, ...]:
    """Return the names of all re-rankers; "none" is the order of the distances."""
    return tuple(member.name for member in RERANKERS)


def reranker_class(name: str) -> type[Reranker]:
    """Return the class of the re-ranker `name`; raise InvalidInput for an unknown one."""
    for member in RERANKERS:
        if member.name == resolve_name(name):
            return member
    advice = did_you_mean(name, ["auto", *names()])
    raise InvalidInput(f"there is no re-ranker {name!r}{advice or ';'} there are: auto, {', '.join(names())}")


def get(name: str, **parameters: Any) -> Reranker:
    """Return the re-ranker `name`, or the best one for "auto", with `parameters` in place of its defaults.

    Raises InvalidInput, which lists the choices, for an unknown name or parameter or a value out of bounds.
    """
    return reranker_class(name).from_values(name, parameters)


def get_tuned(name: str, tuned: Mapping[str, Any], parameters: Mapping[str, Any]) -> Reranker:
    """Return the re-ranker `name` with the parameters that a profile has tuned.

    Parameters
    ----------
    name : str
        Name of the re-ranker, or "auto".
    tuned : mapping
        Parameters of the profile: of all re-rankers that have them, and by `settings_name` those of one alone.
    parameters : mapping
        Parameters that replace them.
    """
    kind = reranker_class(name)
    shared = {key: value for key, value in tuned.items() if key in kind.tuned_names()}
    own = {
        key: value
        for key, value in tuned.get(kind.settings_name(), {}).items()
        if key in kind.parameter_names()
    }
    return get(name, **(shared | own | dict(parameters)))


class _CallablePackage(ModuleType):
    """Lets the name of the package be the name of its main function too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from cbir.rerank.ranked import rerank_vectors

        return rerank_vectors(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
