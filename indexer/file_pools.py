"""Pools that describe the files of a run: in processes of this machine, on its GPU, or on a Ray cluster."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from threading import Semaphore

from cbir.descriptors.descriptor import Batched
from cbir.descriptors.encoders.device_encoder import FEWEST_VOLUMES
from cbir.ingest.description import DescribedFile, Refusal, describe_prepared, refuse
from cbir.ingest.object_store import StoredObject, StoreSilent
from cbir.ingest.process_pool import ProcessPool, prepare_to_decode
from cbir.system.device_failure import IMAGES_TOGETHER, MOST_BYTES
from cbir.system.threads import cores
from indexer.describe_files import (
    NO_FILE,
    NOT_HERE,
    FilePool,
    FileTask,
    SentSource,
    SomeSource,
    Source,
    describe_files,
    describe_in,
    files_of,
    read_source,
    source_stamp,
)
from indexer.index_request import IndexRequest
from indexer.ray_cluster.ray_pool import RayPool


def share_gpu(
    task: FileTask, sources: Iterator[SomeSource]
) -> tuple[FileTask, Batched | None, Iterator[SomeSource]]:
    """Choose the device of a run: with "auto" a GPU, which takes seconds to start, if the sources fill a batch.

    Parameters
    ----------
    task : FileTask
        Settings of the run.
    sources : iterator
        Files or series.

    Returns
    -------
    task : FileTask
        Settings of the processes.
    descriptor : Batched or None
        Describes on the GPU what they prepare, by `describe_batches`; None: they describe.
    sources : iterator
        The same sources.

    Raises
    ------
    InvalidInput
        If the device is "cuda", and no GPU can be used.
    """
    fewest = FEWEST_VOLUMES if task.grid else IMAGES_TOGETHER
    first = list(islice(sources, fewest))
    if task.describe.device == "auto" and len(first) < fewest:
        describe, descriptor = replace(task.describe, device="cpu"), None
    else:
        describe, descriptor = task.describe.share_gpu()
    return replace(task, describe=describe), descriptor, chain(first, sources)


def describe_batches(
    files: Generator[tuple[SomeSource, DescribedFile], None, None], descriptor: Batched | None
) -> Generator[tuple[SomeSource, DescribedFile], None, None]:
    """Replace what processes prepared by vectors of `descriptor`; without one, `files` have their vectors.

    A batch is described while the one before it is stored, and files of the next are decoded.
    """
    if descriptor is None:
        yield from files
        return

    with closing(files), ThreadPoolExecutor(1) as thread:
        before: tuple[list[SomeSource], Future[list[DescribedFile]]] | None = None
        for sources, prepared in _batches(files):
            current = sources, thread.submit(describe_prepared, prepared, descriptor)
            if before is not None:
                yield from zip(before[0], before[1].result(), strict=True)
            before = current
        if before is not None:
            yield from zip(before[0], before[1].result(), strict=True)


def _batches(
    files: Iterable[tuple[SomeSource, DescribedFile]],
) -> Iterator[tuple[list[SomeSource], list[DescribedFile]]]:
    sources: list[SomeSource] = []
    prepared: list[DescribedFile] = []
    images = size = 0
    file: DescribedFile
    for source, file in files:
        sources.append(source)
        prepared.append(file)
        inputs = (*file.vectors, *file.inverted)
        images += len(inputs)
        size += sum(getattr(values, "nbytes", 0) for values in inputs)
        if images >= IMAGES_TOGETHER or size >= MOST_BYTES:
            yield sources, prepared
            sources, prepared = [], []
            images = size = 0
    if sources:
        yield sources, prepared


SEND_BYTES = 32 * 2**20  # of files that are sent together, or one larger file
SENDERS = 8  # tasks whose files are in memory at a time


class RayFilePool:
    """Describes files and series on the nodes of the connected cluster. Thread-safe.

    A node reads a file or object itself if it sees the same one, by its stamp. Once a node sees none of its files,
    this machine reads all of them, and sends them.

    Parameters
    ----------
    task : FileTask
        Settings of the run.
    jobs : int or None
        Greatest number of processes on a node; None: all its CPUs.
    show_nodes : callable
        As of `RayPool`.
    """

    def __init__(self, task: FileTask, jobs: int | None, show_nodes: Callable[[int, int], None]) -> None:
        self._task = task
        self._pool: RayPool[Sequence[SentSource], list[DescribedFile]] = RayPool(
            describe_files, task, jobs, show_nodes
        )
        self._sends_all = False
        self._sending = Semaphore(SENDERS)

    def __enter__(self) -> "RayFilePool":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    @property
    def jobs(self) -> int:
        """Number of processes."""
        return self._pool.jobs

    def submit(self, sources: Sequence[Source]) -> "Future[list[DescribedFile]]":
        """Queue files; the result raises as `RayPool.run`."""
        return self._pool.threads.submit(self._describe, sources)

    def _describe(self, sources: Sequence[Source]) -> list[DescribedFile]:
        described: dict[int, DescribedFile] = {}
        stamped: dict[int, SentSource] = {}
        for index, source in enumerate(sources):
            try:
                stamped[index] = SentSource(source, source_stamp(source))
            except OSError:
                described[index] = NO_FILE
        if stamped and not self._sends_all:
            described |= zip(stamped, self._pool.run(list(stamped.values())), strict=True)
        missing = {
            index: sent
            for index, sent in stamped.items()
            if described.get(index, NOT_HERE).refusal is Refusal.not_here
        }
        if missing:
            with self._sending:
                for part in self._read(missing, described):
                    described |= zip(part, self._pool.run(list(part.values())), strict=True)
        self._sends_all |= bool(stamped) and len(missing) == len(stamped)
        return [described[index] for index in range(len(sources))]

    def _read(
        self, missing: dict[int, SentSource], described: dict[int, DescribedFile]
    ) -> Iterator[dict[int, SentSource]]:
        """Yield files with their contents, some at a time; those that cannot be read are refused in `described`."""
        part: dict[int, SentSource] = {}
        size = 0
        silent: DescribedFile | None = None
        for index, sent in missing.items():
            if silent is not None and isinstance(sent.source, StoredObject):
                described[index] = silent
                continue
            try:
                contents = {path: read_source(path, self._task) for path in files_of(sent.source)}
            except Exception as error:
                described[index] = refuse(error)
                silent = described[index] if isinstance(error, StoreSilent) else silent
                continue
            part[index] = SentSource(sent.source, sent.stamp, contents)
            size += sum(map(len, contents.values()))
            if size >= SEND_BYTES:
                yield part
                part, size = {}, 0
        if part:
            yield part


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
    return ProcessPool(partial(describe_files, task=task), jobs, prepare_to_decode, seconds)
