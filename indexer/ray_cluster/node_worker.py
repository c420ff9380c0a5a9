"""Actor on a node of a Ray cluster: a pool of processes, as `cbir index` has on one machine."""

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import cbir
from cbir.descriptors.network_descriptors import encoder_of
from cbir.errors import CbirError
from cbir.ingest.description import DescribeTask
from cbir.ingest.process_pool import ProcessPool, WorkerDied, WorkerTimedOut, prepare_to_decode


class HasDescribeTask(Protocol):
    """Settings of a run; a dataclass."""

    @property
    def describe(self) -> DescribeTask:
        """Settings to describe images."""
        ...


Describe = Callable[..., Any]  # called with a task, and the settings as `task`


@dataclass(frozen=True)
class Versions:
    """Versions that the machines of a run must share."""

    cbir: str
    python: str

    @classmethod
    def of_process(cls) -> "Versions":
        """Return those of this process."""
        return cls(cbir.__version__, ".".join(platform.python_version_tuple()[:2]))


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call. died, timed_out: of the process. problem: what went wrong, without a word of any image."""

    value: Any = None
    died: bool = False
    timed_out: bool = False
    problem: str | None = None


class NodeWorker:
    """Describes images in processes of its node. Its methods raise nothing: Ray would log what an error says."""

    def __init__(self) -> None:
        self._pool: ProcessPool[Any, Any] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def versions(self) -> Versions:
        """Return the versions of this node."""
        return Versions.of_process()

    def start(
        self, function: Describe, settings: HasDescribeTask, model: dict[str, bytes], jobs: int
    ) -> Outcome:
        """Start the processes.

        Parameters
        ----------
        function : callable
            Called with every task.
        settings : dataclass
            Passed to the function as `task`; has the collection's key, so it comes by a call, which the head of the
            cluster does not keep.
        model : dict
            Files of a trained embedding or slit-lamp model by their relative paths; empty for others.
        jobs : int
            Number of processes.
        """
        try:
            encoder = encoder_of(settings.describe.profile.descriptor)
            if encoder is not None:
                encoder.check_available()
                settings = _with_describe(settings, device="cpu")  # each process would take memory of a GPU
            if model:
                settings = self._with_model(settings, model)
        except (CbirError, OSError) as error:
            return Outcome(problem=str(error))
        seconds = settings.describe.seconds
        self._pool = ProcessPool(partial(function, task=settings), jobs, prepare_to_decode, seconds)
        return Outcome()

    def run(self, task: Any) -> Outcome:
        """Describe what a task names."""
        assert self._pool is not None
        try:
            return Outcome(self._pool.run(task))
        except WorkerTimedOut:
            return Outcome(died=True, timed_out=True)
        except WorkerDied:
            return Outcome(died=True)
        except Exception as error:
            return Outcome(problem=f"images could not be described there ({type(error).__name__})")

    def _with_model(self, settings: HasDescribeTask, model: dict[str, bytes]) -> HasDescribeTask:
        self._folder = tempfile.TemporaryDirectory(prefix="cbir-model-")
        for name, content in model.items():
            path = Path(self._folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        profile = settings.describe.profile.model_copy(update={"model": Path(self._folder.name)})
        return _with_describe(settings, profile=profile)


def _with_describe(settings: HasDescribeTask, **changes: Any) -> HasDescribeTask:
    described = replace(settings.describe, **changes)
    return replace(settings, describe=described)  # type: ignore[type-var]


def model_files(settings: HasDescribeTask) -> dict[str, bytes]:
    """Return the files of the model that a profile has, by their relative paths."""
    folder = settings.describe.profile.model
    if folder is None:
        return {}
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
