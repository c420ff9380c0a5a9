"""What every command with a network checks first."""

from cbir.errors import InvalidInput


def needs_torch(device: str, threads: int) -> None:
    """Raises InvalidInput where torch or the device is missing; sets the CPU's threads, 0: as they are."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise InvalidInput("networks need torch: pip install 'cbir[deep]'") from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInput(f"there is no device {device!r} here; take cpu") from error
    if threads:
        torch.set_num_threads(threads)
