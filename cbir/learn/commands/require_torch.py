"""Check for torch, which commands that train or run networks need."""

from cbir.errors import InvalidInput
from cbir.system.console import StageLines
from cbir.system.device import resolve_device
from cbir.system.remedies import install_command


def require_torch(device: str, threads: int) -> None:
    """Raise InvalidInput if torch or the `device` is missing; set the CPU `threads` unless 0."""
    try:
        with StageLines() as lines:
            lines.show("loading torch", 0, None)
            import torch
    except ModuleNotFoundError as error:
        raise InvalidInput(f"networks need torch: {install_command('deep')}") from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInput(f"there is no device {device!r}; use --device cpu") from error
    if device.startswith("cuda"):
        resolve_device("cuda")  # tried, not only named
    if threads:
        torch.set_num_threads(threads)
