"""Order of the items of a study, and sides of the methods, for each reader."""

import numpy as np


def reader_schedule(seed: int, reader: int, count: int) -> list[tuple[int, bool]]:
    """Return the positions of the items in the order of a reader, and whether method a is at the left.

    Order and sides are random, and each method is at the left in half of the items, or one more. Same arguments, same
    schedule, so that a reader can go on after a break.

    Parameters
    ----------
    seed : int
        Of the study.
    reader : int
        Number of the reader, from 1.
    count : int
        Number of items.
    """
    generator = np.random.default_rng([seed, reader])
    order = generator.permutation(count).tolist()
    first = int(generator.integers(2))  # which method has one more of an odd number
    sides = generator.permutation(np.arange(first, first + count) % 2 == 0).tolist()
    return list(zip(order, sides, strict=True))
