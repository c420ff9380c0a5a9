"""TREC files: run files `query Q0 image rank score tag` and qrels `query 0 image gain`.

trec_eval and programs built on it keep scores in single precision and order equal ones by name. Written scores
therefore fall strictly in float32, so that every reader sees the same order.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput


def strictly_falling(scores: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return finite scores (k,), best first, as float32 that fall strictly.

    A score that is not below its predecessor becomes the next smaller float32; all others are only rounded.
    """
    bits = np.ascontiguousarray(scores, np.float32).view(np.int32).astype(np.int64)
    # Counting float32 numbers upwards from zero: neighbours differ by one, -0 and 0 are the same.
    counts = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    steps = np.arange(len(counts))
    counts = np.minimum.accumulate(counts + steps) - steps
    bits = np.where(counts < 0, -counts | 0x80000000, counts)
    return bits.astype(np.uint32).view(np.float32)


def trec_word(text: str) -> str:
    """Replace white space, which would end a name in a TREC file."""
    return "_".join(text.split())


def run_lines(query: str, images: Sequence[str], scores: NDArray[np.floating], tag: str) -> list[str]:
    """Format the answers to one query.

    Parameters
    ----------
    query : str
    images : sequence of str
        Image ids, best first.
    scores : (k,) float
        Of the images; written so that they fall strictly.
    tag : str
        Name of the run.
    """
    query, tag = trec_word(query), trec_word(tag)
    falling = strictly_falling(scores).tolist()
    answers = zip(images, falling, strict=True)
    return [  # nine digits distinguish any two float32
        f"{query} Q0 {image} {rank} {score:.9g} {tag}" for rank, (image, score) in enumerate(answers, start=1)
    ]


def qrel_lines(query: str, images: Sequence[str], gains: Sequence[int]) -> list[str]:
    """Format the judgements of one query.

    Parameters
    ----------
    query : str
    images : sequence of str
        Image ids.
    gains : sequence of int
        One for each image.
    """
    return [f"{query} 0 {image} {gain}" for image, gain in zip(images, gains, strict=True)]


def iter_run(path: Path) -> Iterator[tuple[str, list[str], NDArray[np.float32]]]:
    """Yield name, images and scores of each query of a run file, whose lines must be adjacent, best first.

    Raises InvalidInput, naming the line, if the file has another form.
    """
    query = ""
    images: list[str] = []
    scores: list[float] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                name, _, image, _, score, _ = line.split()
                value = float(score)
            except ValueError:
                raise InvalidInput(
                    f"{path}, line {number} is not of the form `query Q0 image rank score tag`"
                ) from None
            if name != query:
                if images:
                    yield query, images, np.array(scores, np.float32)
                query, images, scores = name, [], []
            images.append(image)
            scores.append(value)
    if images:
        yield query, images, np.array(scores, np.float32)
