"""Training checkpoints: complete or absent, whenever the process is killed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cbir.errors import InvalidInput
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
