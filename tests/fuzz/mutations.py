"""Random changes of bytes, and of words that a format knows."""

import random
from collections.abc import Sequence

TELLING = 0x00, 0x01, 0x7F, 0x80, 0xFF  # bytes on which lengths, counts and signs turn
NUMBERS = 0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63
MOST_REPEATED = 20_000  # bytes
HEAD = 600  # bytes at the begin, where damage does most


def mutate(
    data: bytes, others: Sequence[bytes], words: Sequence[bytes], longest: int, rng: random.Random
) -> bytes:
    """Return the data with one to eight changes.

    Parameters
    ----------
    data : bytes
        Data to change.
    others : sequence of bytes
        Data to take pieces from.
    words : sequence of bytes
        Words to insert; may be empty.
    longest : int
        Most bytes of the result.
    rng : random.Random
        Source of all choices.
    """
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        change(changed, others, words, rng)
        del changed[longest:]
    return bytes(changed)


def change(data: bytearray, others: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> None:
    """Change the data once, in place; the parameters are those of `mutate`."""
    reach = len(data) if rng.random() < 0.5 else min(len(data), HEAD)
    begin = rng.randint(0, reach)
    length = rng.choice((1, 2, 4, 8, rng.randint(1, max(1, reach))))
    piece = slice(begin, begin + length)
    match rng.choice(
        ("bit", "byte", "bytes", "number", "cut", "repeat", "remove", "splice", "word", "digits")
    ):
        case "bit" if begin < len(data):
            data[begin] ^= 1 << rng.randrange(8)
        case "byte" if begin < len(data):
            data[begin] = rng.choice(TELLING)
        case "bytes":
            data[piece] = rng.randbytes(length)
        case "number":
            size = rng.choice((2, 4, 8))
            value = rng.choice(NUMBERS) % 2 ** (8 * size)
            data[begin : begin + size] = value.to_bytes(size, rng.choice(("little", "big")))
        case "cut":
            del data[begin:]
        case "repeat":
            data[begin:begin] = data[piece] * rng.choice((1, 2, 50, MOST_REPEATED // length + 1))
        case "remove":
            del data[piece]
        case "splice":
            donor = rng.choice(others)
            start = rng.randint(0, len(donor))
            data[piece] = donor[start : start + length]
        case "word" if words:
            data[begin:begin] = rng.choice(words)
        case "digits":
            data[begin:begin] = str(rng.choice((*NUMBERS, -1, 1e400))).encode()
