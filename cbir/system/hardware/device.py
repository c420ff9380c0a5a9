"""Choice of the device that computes: CPU or CUDA."""

import logging
import os
from threading import Lock
from typing import Literal, NamedTuple

from cbir.errors import DeviceFailed, InvalidInput
from cbir.system.hardware.device_failure import gpu_failure
from cbir.system.hardware.device_trial import faiss_problem, gpu_name, torch_problem

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
