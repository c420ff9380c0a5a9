"""Encoders on a GPU: batches of images described by torch, after a trial that the vectors are those of the CPU."""

import logging
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders import Encoder, load_content
from cbir.descriptors.encoders.add_encoder import trial_images
from cbir.descriptors.encoders.encoder_files import EncoderCard, VolumeInput
from cbir.descriptors.encoders.encoder_network import GREATEST_VALUE, Prepared, fit_image
from cbir.images import Image
from cbir.system.device import Device, resolve_device
from cbir.system.device_failure import device_failures, free_cached_memory, on_gpu_or_cpu

if TYPE_CHECKING:
    from cbir.descriptors.encoders.device_network import DeviceNetwork

PLACE = "cuda"
LEAST_COSINE = 0.9999  # between the vectors of any image on both devices
TRIAL_COSINE = 0.99998  # between those of the trial's images, of which there are few
PRECISIONS = ("float16", "float32")  # that layers compute in: the first with such vectors
FAINT = range(0, 241, 40)  # darkest grey values of slopes of 8 values, whose vectors rounding changes most
# To send fewer images to a GPU takes longer than describing them; one volume is a query, which no trial should delay
FEWEST, FEWEST_VOLUMES = 8, 2

log = logging.getLogger(__name__)


def runs_on_gpu(encoder: Encoder, device: Device) -> bool:
    """Return whether batches are described on a GPU: for the setting `device`, there is one that can.

    Why an encoder stays on the CPU though there is a GPU is logged, once. Raises InvalidInput if `device` is "cuda"
    and no GPU can be used, DeviceFailed if that fails.
    """
    if resolve_device(device) == "cpu":
        return False
    return on_gpu_or_cpu(device, lambda: _load(encoder) is not None, lambda: False)


def describe_on(device: Device, encoder: Encoder, inputs: list[Prepared]) -> NDArray[np.float32]:
    """Describe prepared images on a GPU if they are many and there is one, else on the CPU.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        Setting.
    encoder : Encoder
        The encoder.
    inputs : list of array
        n prepared images, or volumes.

    Returns
    -------
    (n, dimensions) float32

    Raises
    ------
    InvalidInput, DeviceFailed
        As `runs_on_gpu` does.
    UndescribableImage
        As `Encoder.describe_batch` does.
    """
    fewest = FEWEST_VOLUMES if isinstance(encoder.card.input, VolumeInput) else FEWEST
    if len(inputs) < fewest or not runs_on_gpu(encoder, device):
        return encoder.describe_batch(inputs)

    def on_cpu() -> NDArray[np.float32]:
        _load_network.cache_clear()  # frees the weights on the GPU
        free_cached_memory()
        return encoder.describe_batch(inputs)

    return on_gpu_or_cpu(device, lambda: _describe(encoder, inputs), on_cpu)


def _describe(encoder: Encoder, inputs: list[Prepared]) -> NDArray[np.float32]:
    network = _load(encoder)
    assert network is not None
    with device_failures("description"):
        vectors = network.describe(inputs)
    with np.errstate(invalid="ignore"):
        is_storable = np.abs(vectors).max(axis=1) <= GREATEST_VALUE  # False where a value is no number
    for row in np.flatnonzero(~is_storable):  # the CPU may have them, and says what is wrong if not
        vectors[row] = encoder.describe_batch([inputs[row]])[0]
    return vectors


def _load(encoder: Encoder) -> "DeviceNetwork | None":
    return _load_network(encoder.card, encoder.folder)


@lru_cache(maxsize=2)
def _load_network(card: EncoderCard, folder: Path) -> "DeviceNetwork | None":
    """Return the network of a card on the GPU; None if it cannot be there. Raises DeviceFailed if the GPU fails."""
    with device_failures("torch"):
        import torch

        from cbir.descriptors.encoders.device_network import DeviceNetwork, read_known_graph
    try:
        graph = read_known_graph(load_content(card, folder))
    except ValueError as error:
        log.warning("the CPU describes images by the encoder %s, not the GPU: %s", card.name, error)
        return None
    encoder, inputs = Encoder(card, folder), _trial_inputs(card)
    expected = encoder.describe_batch(inputs)
    cosine = 0.0
    for precision in PRECISIONS:
        with device_failures("weights of an encoder"):
            network = DeviceNetwork(graph, card, PLACE, getattr(torch, precision))
        with device_failures("trial of an encoder"):
            cosine = least_cosine(network.describe(inputs), expected)
        if cosine >= TRIAL_COSINE:
            return network
    log.warning(
        "the CPU describes images by the encoder %s, not the GPU: its vectors differ there (cosine %.5f)",
        card.name,
        cosine,
    )
    return None


def _trial_inputs(card: EncoderCard) -> list[Prepared]:
    """Return images that both devices describe before the GPU is used."""
    if not isinstance(card.input, VolumeInput):
        usual, slope = trial_images(), np.linspace(0, 8, 96 * 128).reshape(96, 128)
        faint = [Image((darkest + slope).astype(np.uint8)) for darkest in FAINT]
        return [fit_image(image, card.input) for image in (usual["random"], usual["smooth"], *faint)]
    grid, random = card.input.grid, np.random.default_rng(0)
    return [random.integers(int(card.input.low), int(card.input.high), grid.shape, np.int16)]


def least_cosine(vectors: NDArray[np.float32], others: NDArray[np.float32]) -> float:
    """Return the least cosine between vectors (n, d) and the others of their rows; 0 if one is not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (
            values / np.linalg.norm(values.astype(np.float64), axis=1, keepdims=True)
            for values in (vectors, others)
        )
    least = float((first * second).sum(axis=1).min())
    return least if np.isfinite(least) else 0.0
