"""Describe 2,000 images by a trained embedding on the GPU and on the CPU: largest difference, images a second."""

import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from step_results import DEVICES, SMALL, attempt

from cbir.descriptors.embedding_descriptor import DEVICE_TOLERANCE, EmbeddingDescriptor, descriptor_name
from cbir.models import embedder as models
from cbir.models.embedder import Embedder

COUNT, SIDE = (40, 64) if SMALL else (2000, 224)
BACKBONES = ("small",) if SMALL else ("small", "resnet18", "lite0-max")


def pictures(count: int, side: int) -> list[np.ndarray]:
    """Return grey pictures, smooth to different degrees."""
    random = np.random.default_rng(0)
    drawn = random.integers(0, 256, (count, side, side), np.uint8)
    return [cv2.GaussianBlur(picture, (0, 0), 1 + row % 7) for row, picture in enumerate(drawn)]


def embedding(backbone: str, folder: Path, images: list[np.ndarray]) -> Path:
    """Write an embedding whose batch norms have seen pictures; other weights take the same time."""
    torch.manual_seed(0)
    network = Embedder(backbone, side=SIDE, dimensions=128)
    network.train()
    with torch.no_grad():
        network(torch.from_numpy(np.stack(images[:16])[:, None]).float() / 255)
    models.save_embedder(network.eval(), folder, {})
    return folder


def described(backbone: str) -> dict[str, Any]:
    """Describe the images on each device."""
    images = pictures(COUNT, SIDE)
    folder = embedding(backbone, Path(tempfile.mkdtemp()), images)
    vectors, facts = {}, {}
    for device in DEVICES:
        describe = EmbeddingDescriptor(descriptor_name(folder), folder, device)
        few = images if device == "cuda" else images[: max(8, COUNT // 10)]
        describe.describe_batch(few[:8])
        began = time.perf_counter()
        vectors[device] = describe.describe_batch(few)
        facts[f"{device}_per_second"] = round(len(few) / (time.perf_counter() - began), 1)
    differences = vectors[DEVICES[-1]][: len(vectors["cpu"])] - vectors["cpu"]
    largest = float(np.abs(differences).max())
    facts |= {"images": COUNT, "largest_difference": largest, "tolerance": DEVICE_TOLERANCE}
    return facts | {"on": DEVICES[-1]}


if __name__ == "__main__":
    for backbone in BACKBONES:
        attempt(f"description.{backbone}", lambda: described(backbone))  # noqa: B023
