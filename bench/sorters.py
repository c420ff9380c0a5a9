"""Time differentiable sorters and measure the error of their ranks.

Forward, and forward with backward, of every sorter, of the paper's BiLSTM (two layers of 512, untrained: its time
does not depend on its weights), and of torchsort and diffsort if they are installed. The error is the mean
distance from the true rank, in positions: on synthetic scores and, with --images, on cosine similarities of real
images (huang2012, standardised; every image is a query to 100 others).

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
from cbir.learn.models import sorters
from cbir.learn.models.sorters import LstmSorter, PairwiseSorter, exact_ranks
from cbir.learn.models.sorters.trainable_sorters import draw_scores

Ranks = Callable[[Tensor], Tensor]
SECONDS = 2.0  # per measurement, at most
PAPER = "BiLSTM 2 x 512"


def sorters_to_time(device: str) -> Iterator[tuple[str, Callable[[int], Ranks]]]:
    """Yield names, each with a factory that makes the sorter for a number of scores."""
    for name in sorters.names():
        yield name, lambda d, name=name: sorters.load(name).to(device)  # type: ignore[misc]
    yield "pairwise, relaxed", lambda d: PairwiseSorter(exact=False)
    yield PAPER, lambda d: LstmSorter(hidden=512, layers=2, length=d).to(device).freeze()
    if find_spec("torchsort"):
        yield "torchsort 0.1", lambda d: soft_rank(0.1)
        yield "torchsort 0.001", lambda d: soft_rank(0.001)
    if find_spec("diffsort"):
        from diffsort import DiffSortNet

        def make_diffsort(d: int) -> Ranks:
            network = DiffSortNet("odd_even", d, steepness=200, device=device)
            positions = torch.arange(d, 0, -1, dtype=torch.float32, device=device)
            return lambda scores: torch.einsum("bij,j->bi", network(scores)[1], positions)

        yield "diffsort odd-even 200", make_diffsort


def soft_rank(strength: float) -> Ranks:
    """Return torchsort's soft rank; the smaller the strength, the closer to true ranks."""
    import torchsort

    return lambda scores: torchsort.soft_rank(-scores, regularization_strength=strength)


def milliseconds(ranks: Ranks, scores: Tensor, backward: bool) -> float:
    """Return the median time of the runs that fit into SECONDS, the first (warm-up) apart."""
    times: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(times) < 3 or (time.perf_counter() < until and len(times) < 200):
        inputs = scores.detach().requires_grad_(backward)
        started = time.perf_counter()
        with torch.set_grad_enabled(backward):
            outputs = ranks(inputs)
            if backward:
                outputs.square().sum().backward()
        if scores.is_cuda:
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - started))
    return float(np.median(times[1:]))


@torch.no_grad()
def error(ranks: Ranks, scores: Tensor) -> float:
    """Return the mean distance from the true rank, in positions."""
    return float((ranks(scores) - exact_ranks(scores)).abs().mean())


def similarities(folder: Path, count: int, length: int) -> Tensor:
    """Return cosine similarities (count, length) of real images: each a query to `length` random others."""
    describe, random = descriptors.get("huang2012"), np.random.default_rng(0)
    paths = list(find_images([folder]))
    sample = [paths[i] for i in random.permutation(len(paths))[: max(count, length) + 1]]
    vectors = np.stack([describe(image) for path in sample for image in read_images(path)])
    vectors = (vectors - vectors.mean(axis=0)) / (vectors.std(axis=0) + 1e-6)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    others = np.stack(
        [random.choice(np.delete(np.arange(len(vectors)), i), length, replace=False) for i in range(count)]
    )
    return torch.from_numpy(np.einsum("nk,ndk->nd", vectors[:count], vectors[others])).float()


def figures(name: str, make: Callable[[int], Ranks], scores_by: dict[str, Any]) -> dict[str, Any]:
    """Return a row: times for each size, errors for each kind of scores."""
    row: dict[str, Any] = {"sorter": name}
    for (count, length), scores in scores_by["sizes"].items():
        ranks = make(length)
        row[f"{count}x{length} forward"] = milliseconds(ranks, scores, backward=False)
        row[f"{count}x{length} both"] = milliseconds(ranks, scores, backward=True)
    for kind, scores in scores_by["errors"].items():
        row[kind] = None if name == PAPER else error(make(scores.shape[1]), scores)
    return row


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sizes", nargs="+", default=["32x100", "512x100"], help="vectors x scores")
    options.add_argument("--images", type=Path, help="folder of images for real similarities")
    options.add_argument("--device", default="cpu")
    options.add_argument("--threads", type=int, default=1)
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(0)
    sizes = [tuple(int(n) for n in size.split("x")) for size in args.sizes]
    scores_by = {
        "sizes": {size: draw_scores(*size, generator).to(args.device) for size in sizes},
        "errors": {"synthetic": draw_scores(500, 100, generator).to(args.device)},
    }
    if args.images:
        scores_by["errors"]["real"] = similarities(args.images, 500, 100).to(args.device)
    rows = [figures(name, make, scores_by) for name, make in sorters_to_time(args.device)]
    columns = list(rows[0])
    print(
        f"torch {torch.__version__}, {args.device}, {torch.get_num_threads()} threads; ms; errors in positions"
    )
    print("  ".join([f"{columns[0]:22}", *(f"{column:>15}" for column in columns[1:])]))
    for row in rows:
        cells = ("-" if row[c] is None else f"{row[c]:.3f}" for c in columns[1:])
        print("  ".join([f"{row['sorter']:22}", *(f"{cell:>15}" for cell in cells)]))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
