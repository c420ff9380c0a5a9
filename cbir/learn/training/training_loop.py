"""Training loop, and checkpoints from which an interrupted training continues."""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from cbir.errors import InvalidInput
from cbir.system.device_failure import device_failures
from cbir.system.files import atomic_binary


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
