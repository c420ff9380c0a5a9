"""Trial of a GPU: a GPU is one that computes a small example as the CPU does."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cbir.system.extras import install_command
from cbir.system.hardware.device_failure import device_failures, first_line

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # Linux, and Windows Subsystem for Linux
MIXED_PRODUCTS = (2, 8)  # first torch version whose half precision products can return single precision
SIDE = 64  # of the matrices that are multiplied
SECONDS = 120  # that the trial of FAISS may take
FAISS_TRIAL = ("-m", "cbir.system.hardware.faiss_trial")
ROUNDING = 1e-2  # of a sum of SIDE products in half precision


def torch_problem(needs_driver: bool) -> str | None:
    """Return why torch cannot use a GPU; None if it can. Raises DeviceFailed for a GPU that fails.

    torch takes seconds to import: with `needs_driver` it is not imported on a machine without a driver.
    """
    if needs_driver and not any(driver.exists() for driver in DRIVERS):
        return "this machine has no GPU driver"
    if find_spec("torch") is None:
        return f"torch is not installed ({install_command('gpu')})"
    with device_failures("torch at the trial"):
        return _try_torch()


def faiss_problem() -> str | None:
    """Return why the installed faiss cannot use a GPU; None if it can.

    Raises DeviceFailed if it has a GPU that fails. The trial is in a process of its own: a failed assertion of FAISS,
    such as one about a card that it has no kernels for, ends the process.
    """
    import faiss

    if not hasattr(faiss, "StandardGpuResources"):
        return (
            "searches on a GPU need faiss-gpu in place of faiss-cpu "
            "(pip uninstall faiss-cpu, then pip install faiss-gpu: never both)"
        )
    with device_failures("FAISS at the trial"):
        if not faiss.get_num_gpus():
            return f"faiss-gpu {faiss.__version__} finds no GPU that it can use on this machine"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        trial = subprocess.run(
            [sys.executable, *FAISS_TRIAL], env=environment, capture_output=True, text=True, timeout=SECONDS
        )
        if trial.returncode:
            said = trial.stderr.strip().splitlines() or ["nothing was said"]
            raise RuntimeError(f"the trial ended with {trial.returncode}: {said[-1]}")
    return None


def gpu_name() -> str:
    """Return the name of the GPU, as its driver gives it."""
    import torch

    try:
        return str(torch.cuda.get_device_name())
    except Exception as error:  # it passed its trial, and may fail at any later moment
        return f"a GPU without a name: {first_line(error)}"


def _try_torch() -> str | None:
    """Multiply by cuBLAS, convolve by cuDNN, select, and copy back."""
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no GPU that it can use on this machine"
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < MIXED_PRODUCTS:
        return f"torch {torch.__version__} is older than 2.8"
    values = np.linspace(-1.0, 1.0, SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
    on_cpu = torch.from_numpy(values)
    on_gpu = on_cpu.to("cuda")
    half = on_gpu.half()
    pairs = [
        (on_cpu @ on_cpu, on_gpu @ on_gpu),
        (on_cpu @ on_cpu, torch.mm(half, half, out_dtype=torch.float32)),
        (on_cpu.exp().flatten().topk(5).values, on_gpu.exp().flatten().topk(5).values),
        (_convolved(on_cpu), _convolved(on_gpu)),
    ]
    if all(torch.allclose(one, other.cpu(), rtol=ROUNDING, atol=ROUNDING) for one, other in pairs):
        return None
    raise RuntimeError(f"{torch.cuda.get_device_name()} computes other numbers than the CPU")


def _convolved(matrix: Any) -> Any:
    from torch.nn.functional import conv2d

    return conv2d(matrix[None, None], matrix[None, None, :3, :3])
