"""The device that computes, CPU or CUDA: its choice, its trial, and its lock. torch is imported only for a GPU."""

import errno
import logging
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np

from cbir.errors import DeviceFailed, InvalidInput
from cbir.system.device_failure import device_failures, first_line, gpu_failure
from cbir.system.files import try_lock
from cbir.system.ownership import open_or_create
from cbir.system.remedies import install_command

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # Linux, and Windows Subsystem for Linux

MIXED_PRODUCTS = (2, 8)  # first torch version whose half precision products can return single precision

SIDE = 64  # of the matrices that are multiplied

SECONDS = 120  # that the trial of FAISS may take

FAISS_TRIAL = ("-m", "cbir.system.device")
SCRATCH = 16 << 20  # bytes of the GPU's memory for FAISS's own work, at the trial

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


Device = Literal["auto", "cpu", "cuda"]

log = logging.getLogger(__name__)


class DeviceChoice(NamedTuple):
    """Device that computes. reason: why it is this one; completes "because ..."."""

    name: Literal["cpu", "cuda"]
    reason: str

    def __str__(self) -> str:
        return f"{self.name}, because {self.reason}"


def choose_device(device: Device) -> DeviceChoice:
    """Choose the device for the setting `device`: "auto" is a GPU that passed its trial and has not failed since."""
    if device == "cpu":
        return DeviceChoice("cpu", "device=cpu is set")
    problem = _tried("torch", needs_driver=device == "auto")
    if problem is None and device == "auto" and (failure := gpu_failure()):
        problem = failure
    return DeviceChoice("cpu", problem) if problem else DeviceChoice("cuda", f"{gpu_name()} passed its trial")


def resolve_device(device: Device) -> Literal["cpu", "cuda"]:
    """Resolve "auto" to "cuda" if a GPU can be used, else to "cpu".

    Raises InvalidInput with the reason if `device` is "cuda" and no GPU can be used.
    """
    choice = choose_device(device)
    if device == "cuda" and choice.name == "cpu":
        raise InvalidInput(f"device=cuda: {choice.reason}; set device=cpu or auto to compute on the CPU")
    return choice.name


def faiss_gpu_problem() -> str | None:
    """Return why the installed faiss cannot use the GPU; None if it can."""
    return _tried("faiss")


_trying = {"lock": Lock()}

_results: dict[tuple[str, bool, int], str | None] = {}

if hasattr(os, "register_at_fork"):  # another thread may hold the lock while a process forks
    os.register_at_fork(after_in_child=lambda: _trying.update(lock=Lock()))


def _tried(library: Literal["torch", "faiss"], needs_driver: bool = False) -> str | None:
    """Return the outcome of a trial, made once for each process: a child cannot use the GPU of its parent.

    A GPU that is there and fails is worth a warning; one that is not there, or not supported, is not.
    """
    key = library, needs_driver, os.getpid()
    with _trying["lock"]:
        if key not in _results:
            try:
                _results[key] = faiss_problem() if library == "faiss" else torch_problem(needs_driver)
            except DeviceFailed as error:
                log.warning("%s; the CPU computes", error)
                _results[key] = str(error)
        return _results[key]


_acquiring = Lock()

# By process, file system and number of the lock's file.
_device_locks: dict[tuple[int, int, int], int] = {}


def acquire_device_lock(folder: Path) -> bool:
    """Acquire the device lock of the collection in `folder`; return False if another process has it.

    The kernel releases the lock when the process dies.
    """
    with _acquiring:
        file = _open_lock(folder)
        status = os.fstat(file)
        name = os.getpid(), status.st_dev, status.st_ino
        if name in _device_locks:
            os.close(file)
            return True
        if not try_lock(file):
            os.close(file)
            return False
        _device_locks[name] = file
        return True


def _open_lock(folder: Path) -> int:
    """Open the lock's file; the folder itself, in place of it, where nothing can be written."""
    try:
        return open_or_create(folder / "device.lock", os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        return os.open(folder, os.O_RDONLY)


def try_faiss() -> None:
    """Raise RuntimeError if FAISS finds other neighbours on the GPU than on the CPU, or what it raises itself."""
    import faiss

    vectors = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    resources, options = faiss.StandardGpuResources(), faiss.GpuClonerOptions()
    resources.setTempMemory(SCRATCH)
    resources.setPinnedMemory(0)
    options.use_cuvs = False
    copy = faiss.index_cpu_to_gpu(resources, 0, index, options)
    (distances, rows), (expected, nearest) = copy.search(vectors, 3), index.search(vectors, 3)
    if not (rows == nearest).all() or not np.allclose(distances, expected, atol=1e-4):
        raise RuntimeError("FAISS finds other neighbours on the GPU than on the CPU")


if __name__ == "__main__":
    try_faiss()
