"""The parameters of each re-ranker that are tried when they are chosen for a collection."""

from itertools import product
from typing import Any

from cbir import rerank

POSITIVES = (3, 6, 9, 12, 15)  # P, images taken as relevant (Huang et al. 2012, figure 4)
MACHINES = {"P": POSITIVES, "gamma": (0.5, 1.0, 2.0), "C": (1.0, 10.0)}

GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "pearson": {"K": (20, 60, 200), "lam": (0.1, 0.3, 1.0)},
    "eprf": MACHINES,
    "nsu-eprf": MACHINES,
    "svm-eprf": MACHINES,
    "nprf": MACHINES,
    "pc": {"M": (50, 200), "clusters": (10, 20, 50), "weight": (0.2, 0.5, 0.8)},
    "k-reciprocal": {"k1": (5, 10, 20, 40), "k2": (2, 4, 6), "lam": (0.1, 0.3)},
    "aqe": {"P": POSITIVES, "alpha": (0.0, 1.0, 3.0, 10.0)},
    "diffusion": {},  # the default must be right as it is
}


def points(name: str) -> list[dict[str, Any]]:
    """What to try of the re-ranker called `name`: all combinations of its grid, its defaults among them.

    A re-ranker without a grid is tried with its defaults; one that has a P, with each of `POSITIVES`.
    """
    unlisted = {"P": POSITIVES} if "P" in rerank.parameter_names(name) else {}
    grid = GRIDS.get(name, unlisted)
    found = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    defaults = rerank.get(name).parameters
    default = {parameter: defaults[parameter] for parameter in grid}
    return found if default in found else [default, *found]
