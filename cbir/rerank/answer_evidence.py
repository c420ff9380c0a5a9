"""Counts of first answers that agree on a label and are right, of searches in a collection."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ANSWERS = 10  # first answers whose labels are counted
LEAST_IMAGES = 20  # searched with, for a share to be reported
CONFIDENCE = 1.96  # standard errors on either side of a share: 95 %
BY_IMAGE, BY_PATIENT = (
    "image",
    "patient",
)  # what the first answers are: images, or the best one of each patient


class AgreementBlock(NamedTuple):
    """Searches in which at least so many of the first ANSWERS, and fewer than in the next block, had one label.

    least: of agreeing answers. images: searched with. right: those whose own label it was. patients: of these images,
    each without a known one being one; 0 for as many as images.
    """

    least: int
    images: int
    right: int
    patients: int = 0

    @property
    def share(self) -> float:
        """Share of the images whose own label it was, by Laplace's rule: no number of images makes it 0 or 1."""
        return (self.right + 1) / (self.images + 2)

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the share (Wilson 1927), of as many searches as there are patients: images of one are alike."""
        share, added = self.right / self.images, CONFIDENCE**2 / (self.patients or self.images)
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


def rising_blocks(counts: NDArray[np.int64]) -> AgreementBlocks:
    """Merge neighbouring numbers of agreeing answers until the share of right labels rises: isotonic regression.

    Blocks of fewer than LEAST_IMAGES are merged with the one before, or the first with the next.

    Parameters
    ----------
    counts : (m + 1, 2) int64
        Queries with 0 to m agreeing answers, and how many of them the label is right for.
    """
    blocks = _pooled(
        AgreementBlock(agreeing, images, right)
        for agreeing, (images, right) in enumerate(counts.tolist())
        if images
    )
    while len(blocks) > 1 and (small := [i for i, each in enumerate(blocks) if each.images < LEAST_IMAGES]):
        last = max(small[-1], 1)
        blocks[last - 1 : last + 1] = [_merged(blocks[last - 1], blocks[last])]
    # Laplace's rule draws the share of few images to a half, so that of merged ones may lie beyond the next.
    return tuple(_pooled(blocks))


def _pooled(blocks: Iterable[AgreementBlock]) -> list[AgreementBlock]:
    """Merge neighbours until the share rises."""
    pooled = list[AgreementBlock]()
    for block in blocks:
        pooled.append(block)
        while len(pooled) > 1 and pooled[-2].share >= pooled[-1].share:
            pooled[-2:] = [_merged(*pooled[-2:])]
    return pooled


def _merged(before: AgreementBlock, block: AgreementBlock) -> AgreementBlock:
    return AgreementBlock(before.least, before.images + block.images, before.right + block.right)


@dataclass(frozen=True)
class Evidence:
    """Counts of first answers that agree on a value of a label and are right, from few that agree to many.

    values: by the value that they agree on. groups: by modality and body part of these answers, as `group_name`
    writes them, over the values with too few searches of their own.
    """

    values: Mapping[str, AgreementBlocks] = field(default_factory=dict)
    groups: Mapping[str, AgreementBlocks] = field(default_factory=dict)


EvidenceByKey = Mapping[str, Evidence]


def group_name(modality: str | None, body_part: str | None) -> str | None:
    """Return the name of the images of a modality and body part; None if neither is known."""
    return f"{modality or ''}/{body_part or ''}" if modality or body_part else None
