"""Describe files on a Ray cluster: nodes read those that they see, and are sent the others."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Semaphore

from cbir.ingest.description import DescribedFile, Refusal, refuse
from cbir.ingest.object_store import StoredObject, StoreSilent
from indexer.describe_files import (
    NO_FILE,
    NOT_HERE,
    FileTask,
    SentSource,
    Source,
    describe_files,
    files_of,
    read_source,
    source_stamp,
)
from indexer.ray_cluster.ray_pool import RayPool

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
