"""Processes of an indexing run: on this machine, or on a Ray cluster."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from cbir.ingest.process_pool import ProcessPool, use_one_thread_silently
from cbir.threads import cores
from indexer.describe_files import FilePool, FileTask, describe_files
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
        function = partial(describe_files, task=task)
        with ProcessPool(
            function, request.jobs or cores(), use_one_thread_silently, task.describe.seconds
        ) as pool:
            yield pool
        return
    from indexer.ray_cluster.file_pool import RayFilePool

    def show_nodes(nodes: int, processes: int) -> None:
        begin_stage(
            f"indexing on {nodes} node{'s' * (nodes != 1)}, {processes} process{'es' * (processes != 1)}"
        )

    with RayFilePool(task, request.jobs, show_nodes) as cluster:
        yield cluster
