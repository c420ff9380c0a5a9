"""The re-ranker that `auto` stands for in one collection, and why."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import sqrt
from typing import Any, NamedTuple

from cbir.errors import InvalidInput
from cbir.rerank import reranker_class
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.simple_rerankers import NoReranking

# Relevance that flows far, beside mutual neighbours; the nearest image stays first. bench/results/auto_choice.md
MUTUAL = {"damping": 0.97, "tail": 1.0, "mutual": 4.0, "sure": 1.0}
OF_HUANG2012 = {**MUTUAL, "sure": 0.85}  # first answers of huang2012 gain: 3 points of P@1 and more
# Compared on labelled images. On a draw the first wins.
CANDIDATES: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("diffusion", MUTUAL),
    ("diffusion", OF_HUANG2012),
    ("diffusion", {}),
    ("diffusion", {"damping": 0.97, "tail": 1.0}),
    ("diffusion", {"damping": 0.97, "tail": 1.0, "sure": 1.0}),
    ("none", {}),
    ("eprf", {"sure": 1.0}),
    ("k-reciprocal", {"M": 200, "sure": 1.0}),
    ("aqe", {}),
)
LOSING = ("color_layout", "tamura")  # too many of their neighbours belong to another class: docs/rerank.md


ANSWERS = 10  # first answers whose labels are counted
LEAST_IMAGES = 20  # searched with, for a share to be reported
CONFIDENCE = 1.96  # standard errors on either side of a share: 95 %
BY_IMAGE, BY_PATIENT = (
    "image",
    "patient",
)  # what the first answers are: images, or the best one of each patient


class AgreementBlock(NamedTuple):
    """Searches in which at least so many of the first ANSWERS, and fewer than in the next block, had one label.

    least: of agreeing answers. images: searched with. right: those whose own label it was.
    """

    least: int
    images: int
    right: int

    @property
    def share(self) -> float:
        """Share of the images whose own label it was, by Laplace's rule: no number of images makes it 0 or 1."""
        return (self.right + 1) / (self.images + 2)

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the share (Wilson 1927)."""
        share, added = self.right / self.images, CONFIDENCE**2 / self.images
        center = (share + added / 2) / (1 + added)
        half = sqrt(added * (share * (1 - share) + added / 4)) / (1 + added)
        low = center - half if self.right else 0.0
        high = center + half if self.right < self.images else 1.0
        return low, high


AgreementBlocks = tuple[AgreementBlock, ...]


def block_of(blocks: AgreementBlocks, agreeing: int) -> AgreementBlock | None:
    """Return the block that `agreeing` answers belong to, if it holds LEAST_IMAGES."""
    inside = [block for block in blocks if block.least <= agreeing]
    return inside[-1] if inside and inside[-1].images >= LEAST_IMAGES else None


@dataclass(frozen=True)
class Evidence:
    """How often first answers that agree on a value of a label are right, from few that agree to many.

    values: by the value that they agree on. groups: by modality and body part of these answers, as `group_name`
    writes them, over the values with too few searches of their own.
    """

    values: Mapping[str, AgreementBlocks] = field(default_factory=dict)
    groups: Mapping[str, AgreementBlocks] = field(default_factory=dict)


EvidenceByKey = Mapping[str, Evidence]


def group_name(modality: str | None, body_part: str | None) -> str | None:
    """Return the name of the images of a modality and body part; None if neither is known."""
    return f"{modality or ''}/{body_part or ''}" if modality or body_part else None


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
    parameters = OF_HUANG2012 if descriptor == "huang2012" else MUTUAL
    return AutoChoice(
        Diffusion.name, "the best in general; methods were not compared on labelled images", parameters
    )
