"""Training of a pretrained network further, from the head that its frozen values gave."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from cbir import settings
from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_network import fit_image
from cbir.descriptors.networks.backbones import IMAGENET
from cbir.descriptors.networks.efficientnet_lite_network import (
    LITE_NETWORKS,
    EfficientNetLiteNetwork,
)
from cbir.descriptors.networks.embedder import Embedder, EmbeddingHead
from cbir.errors import InvalidInput
from cbir.images import Limits
from cbir.learn.training.picture_loading import StageCallback, load_described
from cbir.system.device_failure import device_failures
from cbir.system.files import atomic_binary


@dataclass(frozen=True)
class FineTuning:
    """Options of fine-tuning.

    blocks: last blocks of the network to train; more than it has: all of it. epochs: passes through the images.
    rate: highest learning rate of the head. trunk: factor of the rate for the blocks.
    """

    blocks: int
    epochs: int = 3
    rate: float = 5e-4
    trunk: float = 0.2

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.epochs < 1 or not self.rate > 0 or not 0 < self.trunk <= 1:
            raise InvalidInput("fine-tuning needs at least one block and one epoch, and rates above 0")

    def recipe(self, head: Any) -> Any:
        """Return the recipe of `head`, an EmbeddingRecipe, with these options."""
        return replace(head, epochs=self.epochs, patience=self.epochs, rate=self.rate, trunk=self.trunk)


def check_trainable(encoder: str) -> None:
    """Raise InvalidInput unless there is a torch form of the encoder."""
    if encoder not in LITE_NETWORKS:
        raise InvalidInput(
            f"the encoder {encoder} can be used frozen only: its ONNX form cannot be trained. Use it with "
            f"`cbir train embedding` without --fine-tune, or choose one of {', '.join(LITE_NETWORKS)}"
        )


def build_trainable(encoder: Encoder, head: nn.Module, blocks: int) -> Embedder:
    """Join a built-in encoder and a head that was trained on its values, for colour images of the encoder's size.

    Parameters
    ----------
    encoder : Encoder
        A built-in encoder.
    head : EmbeddingHead
        The head; copied.
    blocks : int
        Last blocks to train; the others are frozen. So are the statistics of all batch norms: batches of a few
        classes would distort them.
    """
    assert isinstance(head, EmbeddingHead)
    shape = encoder.image_input
    embedder = Embedder(
        encoder.name, side=shape.width, weights=IMAGENET, head=head.options, channels=len(shape.mean)
    )
    projection, network = embedder.backbone.projection, embedder.backbone.network
    assert isinstance(projection, EmbeddingHead)
    assert isinstance(network, EfficientNetLiteNetwork)
    projection.load_state_dict(head.state_dict())
    network.freeze(blocks)
    return embedder


def load_trainable_pictures(
    paths: Sequence[Path], encoder: Encoder, show: StageCallback = lambda stage, done, total, text: None
) -> NDArray[np.uint8]:
    """Load images again, as the encoder takes them: (n, side, side, 3).

    Raises InvalidInput if one has become unreadable.
    """
    shape = encoder.image_input
    pixels = np.zeros((len(paths), shape.height, shape.width, len(shape.mean)), np.uint8)
    limits = Limits.from_settings(settings.load())
    loaded = load_described(paths, lambda image: fit_image(image, shape), pixels, limits,
                            lambda done: show("reading again", done, len(paths), ""))  # fmt: skip
    if loaded.refused:
        raise InvalidInput(f"an image has become unreadable: {loaded.refused[0]}")
    return pixels


def fine_tuning_notes(head: Mapping[str, Any], tuned: Mapping[str, Any]) -> list[str]:
    """Return a note for the user unless fine-tuning raised the validation mAP.

    `head` and `tuned` are outcomes of `train_embedding`, before and after it.
    """
    before, after = (outcome["history"][outcome["best_epoch"] - 1]["map"] for outcome in (head, tuned))
    if after > before:
        return []
    return [
        f"fine-tuning did not help: mAP of validation images {after:.3f}, {before:.3f} before it; "
        "train without --fine-tune into another folder"
    ]


def trained_encoder(encoder: Encoder) -> dict[str, Any]:
    """Return the card's facts about the encoder that was trained further: its card, and its input from 0 to 1."""
    shape = encoder.image_input
    zeros, ones = (0.0,) * len(shape.mean), (1.0,) * len(shape.mean)
    plain = shape.model_copy(update={"mean": zeros, "deviation": ones})
    return {"encoder": encoder.card.model_dump(mode="json"), "input": plain.model_dump(mode="json")}


def parameter_groups(network: nn.Module, trunk: float) -> list[dict[str, Any]]:
    """Return the parameters to train: those of an embedder's network at `trunk` times the rate of the others."""
    first = (
        {id(value) for value in network.backbone.network.parameters()}
        if isinstance(network, Embedder)
        else set()
    )
    trained = [value for value in network.parameters() if value.requires_grad]
    groups: list[dict[str, Any]] = [{"params": [value for value in trained if id(value) not in first]}]
    if slower := [value for value in trained if id(value) in first]:
        groups.append({"params": slower, "rate_factor": trunk})
    return groups


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Replace `path` by `state`: tensors, numbers and strings, in lists and dictionaries."""
    with atomic_binary(path) as file:
        torch.save(state, file)


def read_checkpoint(path: Path, identity: Mapping[str, Any] = {}) -> dict[str, Any] | None:
    """Read the state that `write_checkpoint` wrote to `path`, on the CPU; None if there is no file.

    Only tensors and plain values are accepted: no code runs from a checkpoint. Raises InvalidInput for other files,
    and for a state that differs from `identity`.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise TypeError
    except Exception as error:  # torch passes on the errors of its zip and pickle readers
        raise InvalidInput(f"{path} is not a checkpoint; delete it to train from the start") from error
    if state.get("form") != identity.get("form", state.get("form")):
        raise InvalidInput(f"{path} is of another version of cbir; delete it to train from the start")
    if any(state.get(name) != value for name, value in identity.items()):
        raise InvalidInput(f"{path} is of another training; choose another folder, or delete it")
    return state


def run_training_loop(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch_loss: Callable[[int], Tensor],
    steps: int,
    *,
    start: int = 0,
    rate: Callable[[int], float] | None = None,
    scheduler: LRScheduler | None = None,
    largest_gradient: float = math.inf,
    on_step: Callable[[int, Tensor], None] = lambda step, loss: None,
    stop: Callable[[], bool] = lambda: False,
    save: Callable[[], None] | None = None,
    save_every: float = 60.0,
    epoch_length: int | None = None,
) -> None:
    """Minimise a loss batch by batch.

    Parameters
    ----------
    network : nn.Module
        In training mode; its gradients are clipped.
    optimizer : torch.optim.Optimizer
        Of the parameters to learn.
    batch_loss : callable
        Loss of the batch of a step, counted from 0.
    steps : int
        Number of batches in the whole training.
    start : int
        Steps done before, by an earlier process.
    rate : callable, optional
        Learning rate of a step; times "rate_factor" of a group of parameters that has one.
    scheduler : LRScheduler, optional
        Advanced after each step, in place of `rate`.
    largest_gradient : float
        Norm that gradients are clipped to.
    on_step : callable
        Receives the number of steps done and the loss of the last batch.
    stop : callable
        Asked before each batch; True ends the training.
    save : callable, optional
        Writes a checkpoint; called every `save_every` seconds and after each epoch of `epoch_length` steps.
    save_every : float
        Seconds between checkpoints.
    epoch_length : int, optional
        Steps per epoch.
    """
    saved, device = time.monotonic(), next(network.parameters()).device.type
    for step in range(start, steps):
        if stop():
            return
        if rate is not None:
            for group in optimizer.param_groups:
                group["lr"] = rate(step) * group.get("rate_factor", 1.0)
        with device_failures(
            f"step {step} of the training; smaller batches or --device cpu may help", device
        ):
            loss = batch_loss(step)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            if math.isfinite(largest_gradient):
                torch.nn.utils.clip_grad_norm_(network.parameters(), largest_gradient)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            on_step(step + 1, loss.detach())  # reading the loss waits for the device, which fails then
        ends_epoch = epoch_length is not None and (step + 1) % epoch_length == 0
        if save is not None and (ends_epoch or time.monotonic() - saved > save_every):
            save()
            saved = time.monotonic()
