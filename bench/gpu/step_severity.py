"""The ranker of Kadota et al. as in the paper: DenseNet-169 on pictures of side 224, T = 30 passes."""

import time
from typing import Any

import numpy as np
from step_results import DEVICES, SMALL, attempt

from cbir.learn.severity.severity_rankers import BayesianRanker

BACKBONE, SIDE = ("small", 64) if SMALL else ("densenet169", 224)
STEPS = {"cpu": 4, "cuda": 32}  # batches of 16 pairs
SAMPLED = {"cpu": 2, "cuda": 256}  # images


def learned(device: str) -> dict[str, Any]:
    """Train on pairs, then sample severities."""
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (max(SAMPLED.values()), SIDE, SIDE), np.uint8)
    pairs = random.integers(0, len(pictures), (64, 2))
    ranker = BayesianRanker(BACKBONE, SIDE, epochs=1, steps=STEPS[device], rate=1e-5, device=device)
    began = time.perf_counter()
    ranker.fit(pictures, pairs, random.integers(0, 2, 64).astype(float))
    learning = time.perf_counter() - began
    began = time.perf_counter()
    estimate = ranker.severity(pictures[: SAMPLED[device]])
    sampling = time.perf_counter() - began
    return {
        "device": device,
        "pairs_per_second": round(16 * STEPS[device] / learning, 2),
        "images_per_second": round(SAMPLED[device] / sampling, 2),
        "finite": bool(np.isfinite(estimate.mean).all()),
    }


if __name__ == "__main__":
    for device in reversed(DEVICES):
        attempt(f"severity.{device}", lambda: learned(device))  # noqa: B023
