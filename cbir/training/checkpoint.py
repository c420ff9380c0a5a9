"""Checkpoints that survive being killed while they are written."""

from pathlib import Path
from typing import Any

import torch

from cbir.atomic import atomic_binary
from cbir.errors import InvalidInput


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Put `state` (tensors, numbers, texts, lists and dictionaries of them) into `path`: all of it or the old one."""
    with atomic_binary(path) as file:
        torch.save(state, file)


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """What `write` put there, on the CPU; None where there is nothing. Raises InvalidInput for anything else.

    Only tensors and plain values are accepted: no code runs from a checkpoint.
    """
    if not path.exists():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its readers of zip and pickle do
        raise InvalidInput(f"{path} is not a checkpoint; delete it to start anew") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} is not a checkpoint; delete it to start anew")
    return found
