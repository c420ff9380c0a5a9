"""Layout of a k-NN graph in two dimensions by t-SNE."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.system.remedies import missing_package

REPORTED = 10  # steps between two reports of progress
START_DEVIATION = 1e-4  # of positions that are no layout yet (Kobak & Berens 2019)
JITTER = 1e-2  # of the deviation: two images at one position would never part
INTERPOLATED = 2000  # images from which repulsion is interpolated
ISOLATED = 1e-9  # similarity of an image without neighbours to itself

Report = Callable[[int], None]


@dataclass(frozen=True)
class Phase:
    """Steps of gradient descent. exaggeration: factor of the attraction."""

    steps: int
    exaggeration: float
    momentum: float


FROM_SCRATCH = (Phase(250, 12.0, 0.5), Phase(250, 1.0, 0.8))

REFINING = (Phase(100, 1.0, 0.8),)


def lay_out(weights: Any, start: Floats, phases: tuple[Phase, ...], report: Report) -> Floats:
    """Lay out the images of a k-NN graph by t-SNE (van der Maaten & Hinton 2008).

    The graph's weights stand for the similarities, so no neighbours are searched for. Repulsion is interpolated
    (FIt-SNE: Linderman et al. 2019), which takes time in proportion to the images. The same input gives the same
    layout.

    Parameters
    ----------
    weights : sparse matrix (n, n) float32
        Symmetric weights of the graph's edges.
    start : (n, 2) float32
        Positions to start from.
    phases : tuple of Phase
        Steps to take, one phase after the other.
    report : callable
        Called with the number of steps done; what it raises ends the computation.

    Returns
    -------
    (n, 2) float32
        Positions.

    Raises
    ------
    InvalidInput
        If openTSNE is not installed.
    """
    tsne = _import_tsne()
    embedding = tsne.TSNEEmbedding(
        _parted(start),
        tsne.affinity.PrecomputedAffinities(_without_isolated(weights)),
        negative_gradient_method="fft" if len(start) > INTERPOLATED else "bh",
        n_jobs=1,  # several threads do not give the same sums
        random_state=0,
    )
    done = 0
    for phase in phases:

        def after(step: int, error: float, embedding: Any, before: int = done) -> None:
            report(before + step)

        embedding.optimize(
            phase.steps,
            exaggeration=phase.exaggeration,
            momentum=phase.momentum,
            inplace=True,
            callbacks=after,
            callbacks_every_iters=REPORTED,
        )
        done += phase.steps
    return np.asarray(embedding, np.float32)


def count_steps(phases: tuple[Phase, ...]) -> int:
    """Return the number of steps of all phases."""
    return sum(phase.steps for phase in phases)


def shrink_to_start(positions: Floats) -> Floats:
    """Return positions (n, 2) with the deviation that a layout from scratch starts with."""
    deviation = float(positions[:, 0].std())
    return positions * np.float32(START_DEVIATION / deviation) if deviation > 0 else positions


def is_installed() -> bool:
    """Return whether maps can be computed."""
    try:
        _import_tsne()
    except InvalidInput:
        return False
    return True


def _parted(start: Floats) -> Any:
    deviation = float(start.std()) or START_DEVIATION
    return start + np.random.default_rng(0).normal(0.0, JITTER * deviation, start.shape)


def _without_isolated(weights: Any) -> Any:
    from scipy import sparse

    isolated = np.asarray(weights.sum(axis=1)).ravel() <= 0
    return (weights.astype(np.float64) + sparse.diags(isolated * ISOLATED)).tocsr()


def _import_tsne() -> Any:
    try:
        import openTSNE
        import openTSNE.affinity
    except ModuleNotFoundError as error:
        raise InvalidInput(missing_package(error) or str(error)) from error
    return openTSNE
