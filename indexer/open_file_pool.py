"""Processes that describe the files of a run: on this machine, or on a Ray cluster."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from cbir.ingest.description import DescribedFile
from cbir.ingest.process_pool import ProcessPool, use_one_thread_silently
from cbir.system.threads import cores
from indexer.describe_files import FilePool, FileTask, SomeSource, Source, describe_files, describe_in
from indexer.gpu_batches import describe_batches, share_gpu
from indexer.index_request import IndexRequest


def connect_cluster(address: str | None, jobs: int | None) -> AbstractContextManager[None]:
    """Connect to the Ray cluster at an address, if there is one; `jobs` as of `connect_ray`."""
    if address is None:
        return nullcontext()
    from indexer.ray_cluster.ray_connection import connect_ray

    return connect_ray(address, jobs)


@contextmanager
def open_file_pool(
    request: IndexRequest, task: FileTask, begin_stage: Callable[[str], None]
) -> Iterator[FilePool]:
    """Start processes that describe files.

    Parameters
    ----------
    request : IndexRequest
        Names the number of processes, and the cluster, which is connected.
    task : FileTask
        Settings of the run.
    begin_stage : callable
        Called with the number of nodes and processes of a cluster.
    """
    if request.ray is None:
        with _processes(task, request.jobs or cores()) as pool:
            yield pool
        return
    from indexer.ray_cluster.file_pool import RayFilePool

    def show_nodes(nodes: int, processes: int) -> None:
        begin_stage(
            f"indexing on {nodes} node{'s' * (nodes != 1)}, {processes} process{'es' * (processes != 1)}"
        )

    with RayFilePool(task, request.jobs, show_nodes) as cluster:
        yield cluster


def describe_all(
    sources: Iterator[SomeSource], task: FileTask, jobs: int
) -> Generator[tuple[SomeSource, DescribedFile], None, None]:
    """Describe every file or series in processes of this machine, or on its GPU.

    Parameters
    ----------
    sources, task
        As of `describe_in`.
    jobs : int
        Greatest number of processes.
    """
    task, descriptor, sources = share_gpu(task, sources)
    with _processes(task, jobs) as pool:
        yield from describe_batches(describe_in(pool, sources, task), descriptor)


def _processes(task: FileTask, jobs: int) -> ProcessPool[Sequence[Source], list[DescribedFile]]:
    seconds = task.describe.seconds
    return ProcessPool(partial(describe_files, task=task), jobs, use_one_thread_silently, seconds)
