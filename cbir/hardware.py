"""Choice of the device that computes: CPU or CUDA."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from cbir.errors import InvalidInput
from cbir.extras import install_command

Device = Literal["auto", "cpu", "cuda"]

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # Linux, and Windows Subsystem for Linux
MIXED_PRODUCTS = (2, 8)  # first torch version whose half precision products can return single precision


def resolve_device(device: Device) -> Literal["cpu", "cuda"]:
    """Resolve "auto" to "cuda" if torch can use a GPU, else to "cpu".

    Raises InvalidInput with the reason if `device` is "cuda" and CUDA is not available.
    """
    if device == "cpu":
        return "cpu"
    problem = _cuda_problem(require_driver=device == "auto")
    if problem is None:
        return "cuda"
    if device == "cuda":
        raise InvalidInput(f"device=cuda: {problem}; set device=cpu or auto to compute on the CPU")
    return "cpu"


def _cuda_problem(require_driver: bool) -> str | None:
    """Return the reason why CUDA is not available, or None.

    torch takes seconds to import: with `require_driver` it is not imported on a machine without a driver.
    """
    if require_driver and not any(driver.exists() for driver in DRIVERS):
        return "this machine has no GPU driver"
    if find_spec("torch") is None:
        return f"torch is not installed ({install_command('gpu')})"
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no GPU that it can use on this machine"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return None if version >= MIXED_PRODUCTS else f"torch {torch.__version__} is older than 2.8"
