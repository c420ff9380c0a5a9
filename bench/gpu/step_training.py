"""A part of an epoch of both sorters, and an epoch of embeddings with two ranking losses: learns, and how fast."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from step_results import DEVICES, SMALL, attempt

from cbir.descriptors.networks.embedder import Embedder
from cbir.learn.models.scoring_network import apply_network
from cbir.learn.models.sorters import CnnSorter, LstmSorter
from cbir.learn.training.embedding_training import EmbeddingData, EmbeddingRecipe, train_embedding
from cbir.learn.training.labelled_examples import split_by_class
from cbir.learn.training.sorter_training import SorterRecipe, train_sorter

EPOCHS = {"cpu": 0.002 if SMALL else 0.02, "cuda": 0.3}  # of sorters; a CPU needs minutes for one
LOSSES = ("sodeep-map", "toprank")
SIDE, COUNT = (32, 96) if SMALL else (128, 2000)


def sorter(name: str, device: str) -> dict[str, Any]:
    """Train a sorter of lists of 100 scores."""
    torch.manual_seed(0)
    network = LstmSorter(32 if SMALL else 128, 1, 100) if name == "lstm" else CnnSorter()
    errors: list[float] = []
    recipe = SorterRecipe("random", EPOCHS[device], 64, 1e-3)

    def note(step: int, error: float) -> None:
        errors.append(float(error))

    began = time.perf_counter()
    train_sorter(network, recipe, Path(tempfile.mkdtemp()), device, progress=note)
    rate = round(len(errors) / (time.perf_counter() - began), 2)
    facts = {"device": next(network.parameters()).device.type, "steps": len(errors), "steps_per_second": rate}
    return facts | {"first_error": errors[0], "last_error": errors[-1]}


def striped(count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures with rows, columns or no stripes, and their classes."""
    random, classes = np.random.default_rng(0), np.arange(count, dtype=np.int64) % 3
    pictures = random.integers(0, 120, (count, side, side), dtype=np.uint8)
    pictures[classes == 0, ::4] = 255
    pictures[classes == 1, :, ::4] = 255
    return pictures, classes


def embedding(loss: str, device: str) -> dict[str, Any]:
    """Train an embedding for an epoch; its vectors on the device are those of the CPU."""
    pictures, classes = striped(COUNT, SIDE)
    parts = split_by_class([str(value) for value in classes], [str(row) for row in range(COUNT)])
    data = EmbeddingData(pictures, classes, np.arange(COUNT), parts)
    torch.manual_seed(0)
    network = Embedder("small", side=SIDE, dimensions=32)
    began = time.perf_counter()
    outcome = train_embedding(
        network,
        data,
        EmbeddingRecipe(loss, epochs=1, classes=3, images=8),
        Path(tempfile.mkdtemp()),
        device=device,
    )
    rate = len(parts["training"]) / (time.perf_counter() - began)
    mine = apply_network(network.to(device), pictures[:64], device)
    theirs = apply_network(network.to("cpu"), pictures[:64], "cpu")
    difference = float(np.abs(mine - theirs).max())
    facts = {"device": device, "images_per_second": round(rate, 1), "largest_difference": difference}
    return facts | {"map": outcome["history"][-1]["map"]}


def main() -> None:
    for device in reversed(DEVICES):
        for name in ("lstm", "cnn"):
            attempt(f"training.{name}.{device}", lambda: sorter(name, device))  # noqa: B023
        for loss in LOSSES:
            attempt(f"training.{loss}.{device}", lambda: embedding(loss, device))  # noqa: B023


if __name__ == "__main__":
    main()
