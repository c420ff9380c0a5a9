"""Registry of re-rankers: a new one is a class in this package and a line in RERANKERS.

The package can be called: `cbir.rerank(query_vectors, gallery_vectors, "eprf")` is `cbir.rerank_vectors`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cbir.errors import InvalidInput
from cbir.rerank.answer_evidence import AgreementBlock, AgreementBlocks, Evidence, EvidenceByKey
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.diffusion_eprf import DiffusionEprf
from cbir.rerank.eprf import Eprf, FuzzyEprf, NegativeFeedback, NoSimilarityUpdate, PlainEnsemble
from cbir.rerank.k_reciprocal import KReciprocal
from cbir.rerank.pearson import Pearson
from cbir.rerank.reranker import PRESET, Reranked, Reranker
from cbir.rerank.simple_rerankers import AlphaQueryExpansion, NoReranking, PostRetrievalClustering
from cbir.system.api_packages import make_callable
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
AUTO = DiffusionEprf.name  # without a collection, which may have another choice: `read_choice`

OF_HUANG2012 = {"sure": 0.85}  # first answers of huang2012 gain: 3 points of P@1 and more
# Compared on labelled images. On a draw the first wins.
CANDIDATES: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("diffusion-eprf", {}),
    ("diffusion-eprf", OF_HUANG2012),
    ("diffusion", {"damping": 0.97, "tail": 1.0, "mutual": 4.0, "sure": 1.0}),
    ("diffusion", {}),
    ("diffusion", {"damping": 0.97, "tail": 1.0, "sure": 1.0}),
    ("none", {}),
    ("eprf", {"sure": 1.0}),
    ("k-reciprocal", {"M": 200, "sure": 1.0}),
    ("aqe", {}),
)
LOSING = ("color_layout", "tamura")  # too many of their neighbours belong to another class: docs/rerank.md


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
    advice = did_you_mean(str(name), ["auto", *names()])
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
        Parameters that replace them; with `preset=paper` among them those of the profile do not count.
    """
    kind = reranker_class(name)
    if PRESET in parameters:
        return get(name, **parameters)
    shared = {key: value for key, value in tuned.items() if key in kind.tuned_names()}
    own = {
        key: value
        for key, value in tuned.get(kind.settings_name(), {}).items()
        if key in kind.parameter_names()
    }
    return get(name, **(shared | own | dict(parameters)))


make_callable(__name__, "cbir.rerank.ranked:rerank_vectors")


@dataclass(frozen=True)
class AutoChoice:
    """A re-ranker with its parameters.

    reason: a phrase for the user. generation: of the snapshot that it was chosen on, None for no snapshot.
    label: key that a person named to compare by; later choices keep it. images: in the collection then; None for the
    choice of a version that did not count them. evidence: by what the first answers are and by label key, how often
    they agree rightly.
    """

    method: str
    reason: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    generation: int | None = None
    label: str | None = None
    images: int | None = None
    evidence: Mapping[str, EvidenceByKey] = field(default_factory=dict)

    def to_json(self) -> str:
        """Serialise to text that `read_choice` reads."""
        return json.dumps(asdict(self))


def read_choice(text: str | None, descriptor: str) -> AutoChoice:
    """Return the choice that a collection stores, or the default of its descriptor.

    Parameters
    ----------
    text : str or None
        Text of `AutoChoice.to_json`. Another version may have written it: a method or parameter that there is not
        counts as no choice.
    descriptor : str
        Name of the collection's descriptor.
    """
    try:
        fields: dict[str, Any] = json.loads(text) if text else {}
        if (
            fields.pop("agreement", None) is not None
        ):  # of earlier versions, which counted all values together
            fields["images"] = None
        evidence = {
            form: {
                key: Evidence(_read_blocks(each["values"]), _read_blocks(each["groups"]))
                for key, each in by_key.items()
            }
            for form, by_key in fields.pop("evidence", {}).items()
        }
        choice = AutoChoice(**fields, evidence=evidence)
        reranker_class(choice.method).from_values(choice.method, dict(choice.parameters))
    except (AttributeError, KeyError, TypeError, ValueError, InvalidInput):
        return default_choice(descriptor)
    return choice


def _read_blocks(stored: Mapping[str, Any]) -> dict[str, AgreementBlocks]:
    return {name: tuple(AgreementBlock(*block) for block in blocks) for name, blocks in stored.items()}


def default_choice(descriptor: str) -> AutoChoice:
    """Return what `auto` stands for where no labelled images could be compared.

    Parameters
    ----------
    descriptor : str
        Name of the collection's descriptor.
    """
    if descriptor in LOSING:
        return AutoChoice(NoReranking.name, f"no method gains with {descriptor} alone")
    parameters = OF_HUANG2012 if descriptor == "huang2012" else {}
    return AutoChoice(
        DiffusionEprf.name, "the best in general; methods were not compared on labelled images", parameters
    )
