"""Describe 2,000 images by trained embeddings and by the default encoder, on the GPU and on the CPU.

Largest difference, or least cosine; images a second, of the encoder from arrays and from files of 512 x 512 pixels.
"""

import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from step_results import DEVICES, SMALL, attempt

from cbir.descriptors import encoders
from cbir.descriptors.encoders import load_content
from cbir.descriptors.encoders.device_encoder import FEWEST, PRECISIONS, least_cosine
from cbir.descriptors.encoders.device_network import DeviceNetwork, read_known_graph
from cbir.descriptors.network_descriptors import (
    DEVICE_TOLERANCE,
    EmbeddingDescriptor,
    EncoderDescriptor,
    descriptor_name,
)
from cbir.descriptors.networks import embedder as models
from cbir.descriptors.networks.embedder import Embedder
from cbir.images import Image, Limits
from cbir.ingest.description import DescribeTask
from cbir.store.base import profile as profiles
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from cbir.system.device_failure import IMAGES_TOGETHER
from cbir.system.threads import cores
from indexer.describe_files import FileTask
from indexer.file_pools import describe_all

COUNT, SIDE, FILE_SIDE = (40, 64, 64) if SMALL else (2000, 224, 512)
REPEATS = 1 if SMALL else 4  # of the files: processes take seconds to start
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


def encoded() -> dict[str, Any]:
    """Describe images by the encoder of a new collection, from arrays on each device, and from files on the last."""
    profile = profiles.get(DEFAULT_PROFILE)
    images = pictures(COUNT, FILE_SIDE)
    vectors, facts = {}, {}
    for device in DEVICES:
        describe = EncoderDescriptor(profile.descriptor, device)
        few = images if device == "cuda" else images[: max(FEWEST, COUNT // 10)]
        inputs = [describe.prepare(Image(picture)) for picture in few]
        describe.describe_batch(inputs[:IMAGES_TOGETHER])  # loads and tries the network
        began = time.perf_counter()
        vectors[device] = describe.describe_batch(inputs)
        facts[f"{device}_per_second"] = round(len(few) / (time.perf_counter() - began), 1)
    compared = len(vectors["cpu"])
    facts |= {
        "compared": compared,
        "least_cosine": least_cosine(vectors[DEVICES[-1]][:compared], vectors["cpu"]),
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{row}.jpg") for row in range(COUNT)]
        for path, picture in zip(paths, images, strict=True):
            cv2.imwrite(str(path), picture)
        task = DescribeTask(profile, bytes(32), Limits(), DEVICES[-1])
        facts["files_per_second"] = rate(describe_all(iter(paths * REPEATS), FileTask(task), cores()))
        decode = FileTask(replace(task, device="cpu", prepare_only=True))
        facts["decoded_per_second"] = rate(describe_all(iter(paths * REPEATS), decode, cores()))
    return facts | {"images": COUNT, "processes": cores(), "on": DEVICES[-1]}


def computed(precision: str) -> dict[str, Any]:
    """Describe images by the same network in a precision that its trial may not have chosen."""
    encoder, device = encoders.get(DEFAULT_PROFILE), DEVICES[-1]
    graph = read_known_graph(load_content(encoder.card, encoder.folder))
    network = DeviceNetwork(graph, encoder.card, device, getattr(torch, precision))
    inputs = [encoder.prepare(Image(picture)) for picture in pictures(COUNT, FILE_SIDE)]
    network.describe(inputs[:IMAGES_TOGETHER])
    began = time.perf_counter()
    vectors = network.describe(inputs)
    facts = {"per_second": round(COUNT / (time.perf_counter() - began), 1), "on": device}
    few = max(FEWEST, COUNT // 10)
    return facts | {"least_cosine": least_cosine(vectors[:few], encoder.describe_batch(inputs[:few]))}


def rate(results: Iterable[Any]) -> float:
    """Return results a second after those of the first two batches, or the first two: processes have started then."""
    left = iter(results)
    for _ in islice(left, 2 if SMALL else 2 * IMAGES_TOGETHER):
        pass
    began = time.perf_counter()
    count = sum(1 for _ in left)
    return round(count / (time.perf_counter() - began), 1)


if __name__ == "__main__":
    attempt("description.encoder", encoded)
    for precision in PRECISIONS:
        attempt(f"description.{precision}", lambda: computed(precision))  # noqa: B023
    for backbone in BACKBONES:
        attempt(f"description.{backbone}", lambda: described(backbone))  # noqa: B023
