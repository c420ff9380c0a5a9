"""Which device is searched on: the setting's word against what this machine has."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from cbir.errors import InvalidInput

Device = Literal["auto", "cpu", "cuda"]

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # of Linux, and of Windows' subsystem for it
MIXED_PRODUCTS = (2, 8)  # torch's version from which half precision times half precision can give single


def resolve_device(wanted: Device) -> Literal["cpu", "cuda"]:
    """The device for `wanted`; auto is cuda where torch finds a GPU.

    Raises InvalidInput where cuda is asked for and cannot be had, with the reason.
    """
    if wanted == "cpu":
        return "cpu"
    missing = _missing(whatever_it_costs=wanted == "cuda")
    if missing is None:
        return "cuda"
    if wanted == "cuda":
        raise InvalidInput(f"device=cuda: {missing}; set device=cpu or auto to search on the processor")
    return "cpu"


def _missing(whatever_it_costs: bool) -> str | None:
    """What there is no CUDA for want of. torch takes seconds to import: not for a machine without a driver."""
    if not whatever_it_costs and not any(driver.exists() for driver in DRIVERS):
        return "there is no driver of a GPU on this machine"
    if find_spec("torch") is None:
        return "torch is not installed (pip install 'cbir[deep]')"
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no GPU that it can use on this machine"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return None if version >= MIXED_PRODUCTS else f"torch {torch.__version__} is older than 2.8"
