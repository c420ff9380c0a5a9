"""Which images stand together in a batch. For `DataLoader(batch_sampler=...)`."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from cbir.errors import InvalidInput


class BatchSampler(Sampler[list[int]]):
    """Batches of indices, drawn anew for each epoch from the seed and the epoch's number.

    Iterating goes on to the next epoch; `set_epoch` goes to any, so that training can go on where it stopped.
    """

    def __init__(self, batches: int, seed: int) -> None:
        if batches < 1 or seed < 0:
            raise InvalidInput("a sampler needs at least one batch, and a seed of at least 0")
        self.batches = batches
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch, from 0, that the next iteration draws."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        self.epoch += 1
        return self.drawn(random)

    def drawn(self, random: np.random.Generator) -> Iterator[list[int]]:
        """The batches of one epoch."""
        raise NotImplementedError


class BalancedSampler(BatchSampler):
    """`classes` classes in a batch, `images` of each; rare classes come as often as common ones.

    Classes and the images of each come in random order, all of them before any comes again; a class with fewer
    than `images` images repeats some. An epoch has about as many images as there are labels, or `batches` batches.
    """

    def __init__(
        self,
        labels: Sequence[Any],
        classes: int = 8,
        images: int = 4,
        batches: int | None = None,
        seed: int = 0,
    ) -> None:
        self.members = {label: np.flatnonzero(where) for label, where in _places(labels)}
        if not 2 <= classes <= len(self.members) or images < 2:
            raise InvalidInput(
                f"a balanced batch needs at least 2 images of each of 2 to {len(self.members)} classes (those there "
                f"are), not {images} of {classes}"
            )
        super().__init__(max(1, len(labels) // (classes * images)) if batches is None else batches, seed)
        self.classes = classes
        self.images = images

    def drawn(self, random: np.random.Generator) -> Iterator[list[int]]:
        decks = {label: _Deck(places, random) for label, places in self.members.items()}
        of_classes = _Deck(np.arange(len(decks)), random)
        labels = list(decks)
        for _ in range(self.batches):
            chosen = of_classes.take(self.classes)
            yield [place for i in chosen for place in decks[labels[i]].take(self.images)]


class PositiveNegativeSampler(BatchSampler):
    """Few positives and many negatives in a batch: 5 and 450 in Zheng et al., Top-rank CNN, section 4.3.

    With fewer of either than asked for, a batch has them all. An epoch goes once through the negatives, or has
    `batches` batches. Raises InvalidInput where either is missing.
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
            there = "positive" if len(self.positive) else "negative, or there are none"
            raise InvalidInput(f"ranking positives above negatives needs both; all images here are {there}")
        if positives < 1 or negatives < 1:
            raise InvalidInput("a batch needs at least one positive and one negative")
        self.positives = min(positives, len(self.positive))
        self.negatives = min(negatives, len(self.negative))
        super().__init__(-(-len(self.negative) // self.negatives) if batches is None else batches, seed)

    def drawn(self, random: np.random.Generator) -> Iterator[list[int]]:
        positive, negative = _Deck(self.positive, random), _Deck(self.negative, random)
        for _ in range(self.batches):
            yield positive.take(self.positives) + negative.take(self.negatives)


class ShuffledSampler(BatchSampler):
    """Every image once an epoch, in random order: batches of about `images`, all of nearly one size."""

    def __init__(self, count: int, images: int = 64, seed: int = 0) -> None:
        if count < 1 or images < 1:
            raise InvalidInput("a batch needs at least one image")
        super().__init__(-(-count // images), seed)
        self.count = count

    def drawn(self, random: np.random.Generator) -> Iterator[list[int]]:
        for places in np.array_split(random.permutation(self.count), self.batches):
            yield places.tolist()


class _Deck:
    """Cards in random order; shuffled anew when they have all been dealt."""

    def __init__(self, cards: np.ndarray, random: np.random.Generator) -> None:
        self._cards = cards
        self._random = random
        self._left: list[int] = []

    def take(self, count: int) -> list[int]:
        """The next cards; none twice in a hand while there are enough."""
        hand: list[int] = []
        while len(hand) < count:
            if not self._left:
                fresh = self._random.permutation(self._cards).tolist()
                held = set(hand)  # those in the hand go to the bottom
                self._left = [card for card in fresh if card in held] + [
                    card for card in fresh if card not in held
                ]
            hand.append(self._left.pop())
        return hand


def _places(labels: Sequence[Any]) -> Iterator[tuple[Any, np.ndarray]]:
    known = np.asarray(labels)
    if known.ndim != 1 or not len(known):
        raise InvalidInput("a sampler needs one label for each image, at least one")
    for label in np.unique(known):
        yield label, known == label
