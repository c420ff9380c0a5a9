"""How long does it take to rank scores so that a gradient comes back, and how far off are the ranks?

Forward, and forward with backward, of every sorter, of the paper's BiLSTM (two layers of 512, untrained: its time
does not depend on its weights), and of torchsort and diffsort where they are installed. The error is the mean
distance from the true rank, in positions: on the synthetic scores, and on cosine similarities of real images where
--images names a folder (huang2012, standardised; every image a query to 100 others).

    python bench/sorters.py [--sizes 32x100 512x100] [--images FOLDER] [--device cpu]
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbir import descriptors
from cbir.images import read_images
from cbir.ingest.image_files import find_images
from cbir.models import sorters
from cbir.models.sorters import LstmSorter, PairwiseSorter, exact_ranks
from cbir.models.sorters.synthetic_scores import draw_scores

Ranks = Callable[[Tensor], Tensor]
SECONDS = 2.0  # for each figure, at most
PAPER = "BiLSTM 2 x 512"


def contestants(device: str) -> Iterator[tuple[str, Callable[[int], Ranks]]]:
    """Names, and what makes the function for so many scores."""
    for name in sorters.names():
        yield name, lambda d, name=name: sorters.load(name).to(device)  # type: ignore[misc]
    yield "pairwise, relaxed", lambda d: PairwiseSorter(exact=False)
    yield PAPER, lambda d: LstmSorter(hidden=512, layers=2, length=d).to(device).freeze()
    if find_spec("torchsort"):
        yield "torchsort 0.1", lambda d: soft_rank(0.1)
        yield "torchsort 0.001", lambda d: soft_rank(0.001)
    if find_spec("diffsort"):
        from diffsort import DiffSortNet

        def made(d: int) -> Ranks:
            network = DiffSortNet("odd_even", d, steepness=200, device=device)
            places = torch.arange(d, 0, -1, dtype=torch.float32, device=device)
            return lambda scores: torch.einsum("bij,j->bi", network(scores)[1], places)

        yield "diffsort odd-even 200", made


def soft_rank(strength: float) -> Ranks:
    """Of torchsort; the smaller the strength, the closer to true ranks."""
    import torchsort

    return lambda scores: torchsort.soft_rank(-scores, regularization_strength=strength)


def milliseconds(ranks: Ranks, scores: Tensor, backward: bool) -> float:
    """The median of as many runs as fit; the first one, which warms up, does not count."""
    taken: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(taken) < 3 or (time.perf_counter() < until and len(taken) < 200):
        given = scores.detach().requires_grad_(backward)
        started = time.perf_counter()
        with torch.set_grad_enabled(backward):
            found = ranks(given)
            if backward:
                found.square().sum().backward()
        if scores.is_cuda:
            torch.cuda.synchronize()
        taken.append(1000 * (time.perf_counter() - started))
    return float(np.median(taken[1:]))


@torch.no_grad()
def error(ranks: Ranks, scores: Tensor) -> float:
    """Mean distance from the true rank, in positions."""
    return float((ranks(scores) - exact_ranks(scores)).abs().mean())


def similarities(folder: Path, count: int, length: int) -> Tensor:
    """Cosine similarities (count, length) of real images: each a query to `length` others, drawn at random."""
    describe, random = descriptors.get("huang2012"), np.random.default_rng(0)
    paths = list(find_images([folder]))
    chosen = [paths[i] for i in random.permutation(len(paths))[: max(count, length) + 1]]
    vectors = np.stack([describe(image) for path in chosen for image in read_images(path)])
    vectors = (vectors - vectors.mean(axis=0)) / (vectors.std(axis=0) + 1e-6)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    others = np.stack(
        [random.choice(np.delete(np.arange(len(vectors)), i), length, replace=False) for i in range(count)]
    )
    return torch.from_numpy(np.einsum("nk,ndk->nd", vectors[:count], vectors[others])).float()


def figures(name: str, make: Callable[[int], Ranks], known: dict[str, Any]) -> dict[str, Any]:
    """One row: times for each size, errors for each kind of scores."""
    row: dict[str, Any] = {"sorter": name}
    for (count, length), scores in known["sizes"].items():
        ranks = make(length)
        row[f"{count}x{length} forward"] = milliseconds(ranks, scores, backward=False)
        row[f"{count}x{length} both"] = milliseconds(ranks, scores, backward=True)
    for kind, scores in known["errors"].items():
        row[kind] = None if name == PAPER else error(make(scores.shape[1]), scores)
    return row


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sizes", nargs="+", default=["32x100", "512x100"], help="vectors x scores")
    options.add_argument("--images", type=Path, help="a folder of images, for real similarities")
    options.add_argument("--device", default="cpu")
    options.add_argument("--threads", type=int, default=1)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    drawn = torch.Generator().manual_seed(0)
    sizes = [tuple(int(n) for n in size.split("x")) for size in chosen.sizes]
    known = {
        "sizes": {size: draw_scores(*size, drawn).to(chosen.device) for size in sizes},
        "errors": {"synthetic": draw_scores(500, 100, drawn).to(chosen.device)},
    }
    if chosen.images:
        known["errors"]["real"] = similarities(chosen.images, 500, 100).to(chosen.device)
    rows = [figures(name, make, known) for name, make in contestants(chosen.device)]
    columns = list(rows[0])
    print(
        f"torch {torch.__version__}, {chosen.device}, {torch.get_num_threads()} threads; ms; errors in positions"
    )
    print("  ".join([f"{columns[0]:22}", *(f"{column:>15}" for column in columns[1:])]))
    for row in rows:
        cells = ("-" if row[c] is None else f"{row[c]:.3f}" for c in columns[1:])
        print("  ".join([f"{row['sorter']:22}", *(f"{cell:>15}" for cell in cells)]))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
