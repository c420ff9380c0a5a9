"""Ten thousand damaged files: no crash, no hang, no more memory than the limits allow.

CBIR_MUTATIONS says how many are decoded (4,000 if unset; 100,000 takes some minutes). They are decoded in processes
of their own, whose memory the kernel bounds: one that dies, or needs too long for a file, fails the test with the
number of the mutation, or of those it may have been; a number always makes the same bytes.
"""

import os
import random
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from cbir.errors import UnreadableImage
from cbir.images import Limits, decode
from tests.cbir.images.test_damage import SEEDS, repaired

MUTATIONS = int(os.environ.get("CBIR_MUTATIONS", "4000"))
LIMITS = Limits(pixels=1_000_000, bytes=1_000_000, frames=50)
BATCH = 500
SECONDS = 5  # for one file of some kilobytes; the slowest take some hundredths
# A frame of as many pixels as are allowed, in the deepest samples, some times over while it is converted.
MEMORY = 400 * 2**20
TELLING = (0x00, 0x01, 0x7F, 0x80, 0xFF)  # bytes on which lengths, counts and signs turn


def mutated(number: int) -> tuple[str, bytes]:
    """The kind and the bytes of a mutation: a small image, changed in one to four ways."""
    choose = random.Random(number)
    kind = choose.choice(sorted(SEEDS))
    data = bytearray(SEEDS[kind])
    for _ in range(choose.randint(1, 4)):
        change(data, choose)
    if kind.startswith("png") and choose.random() < 0.7:  # else its checksums catch nearly all
        data = bytearray(repaired(bytes(data)))
    return kind, bytes(data)


def change(data: bytearray, choose: random.Random) -> None:
    """Flip a bit, set bytes, write a number, cut, repeat, take out, swap, or bring in another file's bytes."""
    reach = len(data) if choose.random() < 0.5 else min(len(data), 600)  # headers are where damage does most
    if reach < 16:
        return
    position, length = choose.randrange(reach - 8), choose.choice((1, 2, 4, 8, choose.randint(1, reach)))
    match choose.choice(("bit", "byte", "bytes", "number", "cut", "repeat", "remove", "swap", "splice")):
        case "bit":
            data[position] ^= 1 << choose.randrange(8)
        case "byte":
            data[position] = choose.choice(TELLING)
        case "bytes":
            data[position : position + length] = choose.randbytes(length)
        case "number":
            size = choose.choice((2, 4, 8))
            value = choose.choice((0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63)) % 2 ** (
                8 * size
            )
            data[position : position + size] = value.to_bytes(size, choose.choice(("little", "big")))
        case "cut":
            del data[position:]
        case "repeat":
            data[position:position] = data[position : position + length] * choose.choice((1, 2, 50))
        case "remove":
            del data[position : position + length]
        case "swap":
            other = choose.randrange(reach - 8)
            data[position : position + 8], data[other : other + 8] = (
                data[other : other + 8],
                data[position : position + 8],
            )
        case "splice":
            donor = SEEDS[choose.choice(sorted(SEEDS))]
            begin = choose.randrange(len(donor))
            data[position : position + length] = donor[begin : begin + length]


def prepare() -> None:
    """In a process that decodes: bound its memory, and let nothing run for longer than SECONDS."""
    for kind in SEEDS:  # what decoders load and keep counts as theirs, not as a mutation's
        list(decode(SEEDS[kind], kind, limits=LIMITS))
    lines = Path("/proc/self/status").read_text().splitlines()
    size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize"))
    bound = size + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # kills: a decoder in C would not come back to be asked


def attempt(first: int, count: int) -> tuple[int, int, float]:
    """Decode mutations; how many were images, how many refused, and the longest time of one, seconds."""
    images, refused, longest = 0, 0, 0.0
    for number in range(first, first + count):
        kind, data = mutated(number)
        signal.alarm(SECONDS)
        started = time.monotonic()
        try:
            for image in decode(data, kind, limits=LIMITS):
                assert image.pixels.dtype == np.uint8, number
                assert 0 < image.width * image.height <= LIMITS.pixels, number
            images += 1
        except UnreadableImage as error:
            if isinstance(error.__cause__, MemoryError):
                raise AssertionError(
                    f"mutation {number} ({kind}) wants more memory than its pixels need"
                ) from error
            refused += 1
        except BaseException as error:
            raise AssertionError(f"mutation {number} ({kind}) raised {type(error).__name__}") from error
        longest = max(longest, time.monotonic() - started)
    signal.alarm(0)
    return images, refused, longest


def in_processes(starts: list[tuple[int, int]]) -> Iterator[tuple[int, int, float]]:
    context = get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, initializer=prepare) as pool:
        running = [(pool.submit(attempt, *start), start) for start in starts]
        for future, (first, count) in running:
            try:
                yield future.result()
            except BrokenProcessPool:
                pytest.fail(
                    f"a process died of one of the mutations from {first} to {first + count - 1}, or of those beside"
                )


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_mutations_neither_crash_nor_hang_nor_exhaust_memory():
    starts = [(first, min(BATCH, MUTATIONS - first)) for first in range(0, MUTATIONS, BATCH)]
    images = refused = 0
    longest = 0.0
    for some, others, slowest in in_processes(starts):
        images, refused, longest = images + some, refused + others, max(longest, slowest)
    print(f"{images} images, {refused} refused, the slowest in {longest:.3f} s")
    assert images + refused == MUTATIONS
    assert min(images, refused) > MUTATIONS / 20, "mutations that always or never do harm test nothing"


def test_mutations_are_reproducible():
    assert mutated(17) == mutated(17)
    assert len({mutated(number)[1] for number in range(50)}) > 45
