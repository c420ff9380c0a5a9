"""Worker processes that are forked from one that has imported what describes images: most of what a start takes."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from cbir.ingest import process_pool

IMPORTED = (
    "cbir.evaluation.batch",
    "cbir.descriptors",
    "cbir.descriptors.encoders",
    "cbir.evaluation.search_pool",
    "cbir.ingest.decoder_tasks",
    "indexer.describe_files",
    "indexer.intake",
    "numpy.ma",
    "threadpoolctl",
)
HOOKS = os.environ.get("PYTHONPATH")
SPAWN = process_pool._context


@contextmanager
def forked_workers() -> Iterator[None]:
    """Fork the workers of the pools of this process. Processes of `cbir` that tests start spawn theirs."""
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        yield
        return
    fork = multiprocessing.get_context("forkserver")
    fork.set_forkserver_preload(list(IMPORTED))

    def process(target: Callable[..., object], args: tuple[Any, ...], daemon: bool) -> Any:
        if os.environ.get("PYTHONPATH") != HOOKS:  # a test changes what an interpreter imports at its start
            return SPAWN.Process(target=target, args=args, daemon=daemon)
        return fork.Process(target=_run, args=(dict(os.environ), target, *args), daemon=daemon)

    with patch.object(process_pool, "_context", SimpleNamespace(Pipe=SPAWN.Pipe, Process=process)):
        yield


@contextmanager
def spawned_workers() -> Iterator[None]:
    """Spawn them after all, as the product does."""
    with patch.object(process_pool, "_context", SPAWN):
        yield


def _run(environment: dict[str, str], target: Callable[..., object], *arguments: Any) -> None:
    """Run a worker in the environment that its parent has now, not at the fork server's start."""
    os.environ.clear()
    os.environ.update(environment)
    target(*arguments)
