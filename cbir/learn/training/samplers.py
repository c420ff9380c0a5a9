"""Batches of a training: samplers of images, and augmented images."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample
from torch.utils.data import Sampler

from cbir.errors import InvalidInput


class BatchSampler(Sampler[list[int]]):
    """Random batches of indices, which depend on the seed and the epoch alone.

    Each iteration is the next epoch; `set_epoch` selects any, so that training can resume.
    """

    def __init__(self, batches: int, seed: int) -> None:
        if batches < 1 or seed < 0:
            raise InvalidInput("a sampler needs at least one batch, and a seed of at least 0")
        self.batches, self.seed, self.epoch = batches, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the `epoch`, from 0, of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        self.epoch += 1
        return self.epoch_batches(np.random.default_rng((self.seed, self.epoch - 1)))

    def epoch_batches(self, random: np.random.Generator) -> Iterator[list[int]]:
        """Yield the batches of an epoch, with random numbers from `random`."""
        raise NotImplementedError


class BalancedSampler(BatchSampler):
    """Batches with equally many images of each class; rare classes appear as often as common ones.

    Classes, and the images of each, come in random order, all of them before any is repeated.

    Parameters
    ----------
    labels : (n,)
        Class of each image.
    classes, images : int
        Classes per batch, at least 2, and images of each, at least 2; a smaller class repeats images.
    batches : int, optional
        Batches per epoch; by default enough for about n images.
    seed : int
        Seed of the random order.
    """

    def __init__(
        self,
        labels: Sequence[Any],
        classes: int = 8,
        images: int = 4,
        batches: int | None = None,
        seed: int = 0,
    ) -> None:
        values = np.asarray(labels)
        if values.ndim != 1 or not len(values):
            raise InvalidInput("a sampler needs one label for each image, at least one")
        self.members = [np.flatnonzero(values == label) for label in np.unique(values)]
        if not 2 <= classes <= len(self.members) or images < 2:
            raise InvalidInput(
                f"a balanced batch needs at least 2 images of each of 2 to {len(self.members)} classes (all there "
                f"are), not {images} of {classes}"
            )
        super().__init__(max(1, len(labels) // (classes * images)) if batches is None else batches, seed)
        self.classes, self.images = classes, images

    def epoch_batches(self, random: np.random.Generator) -> Iterator[list[int]]:
        decks = [_Deck(rows, random) for rows in self.members]
        class_deck = _Deck(np.arange(len(decks)), random)
        for _ in range(self.batches):
            yield [row for i in class_deck.take(self.classes) for row in decks[i].take(self.images)]


class PositiveNegativeSampler(BatchSampler):
    """Batches of few positives and many negatives: 5 and 450 in Zheng et al., Top-rank CNN, section 4.3.

    Parameters
    ----------
    positive : (n,)
        Whether an image is positive.
    positives, negatives : int
        Images per batch; all if there are fewer.
    batches : int, optional
        Batches per epoch; by default one pass through the negatives.
    seed : int
        Seed of the random order.

    Raises
    ------
    InvalidInput
        If there are no positives or no negatives.
    """

    def __init__(
        self,
        positive: Sequence[Any],
        positives: int = 5,
        negatives: int = 450,
        batches: int | None = None,
        seed: int = 0,
    ) -> None:
        is_positive = np.asarray(positive).astype(bool)
        self.positive, self.negative = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
        if not len(self.positive) or not len(self.negative):
            kind = "positive" if len(self.positive) else "negative, or there are none"
            raise InvalidInput(f"ranking positives above negatives needs both; all images are {kind}")
        if positives < 1 or negatives < 1:
            raise InvalidInput("a batch needs at least one positive and one negative")
        self.positives = min(positives, len(self.positive))
        self.negatives = min(negatives, len(self.negative))
        super().__init__(-(-len(self.negative) // self.negatives) if batches is None else batches, seed)

    def epoch_batches(self, random: np.random.Generator) -> Iterator[list[int]]:
        positive, negative = _Deck(self.positive, random), _Deck(self.negative, random)
        for _ in range(self.batches):
            yield positive.take(self.positives) + negative.take(self.negatives)


class ShuffledSampler(BatchSampler):
    """Batches of about `images` of `count` images in random order, each image once per epoch."""

    def __init__(self, count: int, images: int = 64, seed: int = 0) -> None:
        if count < 1 or images < 1:
            raise InvalidInput("a batch needs at least one image")
        super().__init__(-(-count // images), seed)
        self.count = count

    def epoch_batches(self, random: np.random.Generator) -> Iterator[list[int]]:
        for rows in np.array_split(random.permutation(self.count), self.batches):
            yield rows.tolist()


class _Deck:
    """Cards in random order, shuffled again when all have been dealt."""

    def __init__(self, cards: NDArray[np.int64], random: np.random.Generator) -> None:
        self._cards, self._random = cards, random
        self._left: list[int] = []

    def take(self, count: int) -> list[int]:
        """Deal `count` cards, none twice if there are enough."""
        hand: list[int] = []
        while len(hand) < count:
            if not self._left:
                self._left = self._random.permutation(self._cards).tolist()
                in_hand = set(hand)
                self._left.sort(key=lambda card: card not in in_hand)  # cards in the hand go to the bottom
            hand.append(self._left.pop())
        return hand


ROTATION = 10.0  # degrees
SHIFT = 0.06  # of the side
ZOOM = 0.1
BRIGHTNESS = 0.1  # of full white
CONTRAST = 0.15


def augment_images(images: Tensor, generator: torch.Generator, mirror: bool = False) -> Tensor:
    """Change each image at random, uniformly up to the amounts above.

    Parameters
    ----------
    images : (n, c, h, w)
        Values from 0 to 1, on any device.
    generator : torch.Generator
        On the CPU; the only source of randomness.
    mirror : bool
        Mirror half of the images from left to right; that makes a left knee a right one, so only for images that
        look the same on both sides.
    """
    amounts = (2 * torch.rand(len(images), 6, generator=generator) - 1).to(images.device)
    angle = amounts[:, 0] * math.radians(ROTATION)
    size = 1 + amounts[:, 1] * ZOOM
    shifts = 2 * SHIFT * amounts[:, 2:4]  # the grid goes from -1 to 1
    cosine, sine = size * angle.cos(), size * angle.sin()
    rows = (torch.stack([cosine, -sine, shifts[:, 0]], 1), torch.stack([sine, cosine, shifts[:, 1]], 1))
    grid = affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    moved = grid_sample(images, grid, align_corners=False)
    if mirror:
        mirrored = (torch.rand(len(images), generator=generator) < 0.5).to(images.device)
        moved = torch.where(mirrored[:, None, None, None], moved.flip(3), moved)
    contrast = (1 + CONTRAST * amounts[:, 4])[:, None, None, None]
    brightness = (BRIGHTNESS * amounts[:, 5])[:, None, None, None]
    return ((moved - 0.5) * contrast + 0.5 + brightness).clamp(0, 1)
