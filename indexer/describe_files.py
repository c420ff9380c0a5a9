"""Files to records and vectors, in parallel processes."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from cbir.descriptors.descriptor import Batched
from cbir.errors import UndescribableImage
from cbir.images import Image
from cbir.images.ct_series import CtSeries, read_volume
from cbir.images.volume import VolumeGrid
from cbir.ingest.description import (
    FILE_FRAMES,
    DescribedFile,
    DescribeTask,
    describe_images,
    refuse,
    refused_file,
    with_deadline,
)
from cbir.ingest.image_files import file_stamp, series_stamp
from cbir.ingest.memory_limit import memory_limit
from cbir.ingest.process_pool import (
    ProcessPool,
    WorkerDied,
    WorkerTimedOut,
    extend_deadline,
    use_one_thread_silently,
)
from indexer.guarded_read import read_file_inside, read_inside

CHUNK = 32  # files of one task
AHEAD = 8  # tasks waiting for each process: busy through a commit, and memory bounded
DIED = "its process died on it: a decoder crashed, or memory ran out"
TOO_SLOW = "takes longer to decode than index_decode_seconds allows"

SomeSource = TypeVar("SomeSource", Path, CtSeries)
Source = Path | CtSeries  # a file with images, or the files of a series
FilePool = ProcessPool[Sequence[Source], list[DescribedFile]]


@dataclass(frozen=True)
class FileTask:
    """Settings of a run.

    within: folders that files may be read from; any if empty. grid: of the series of a profile for volumes.
    """

    describe: DescribeTask
    within: tuple[Path, ...] = ()
    grid: VolumeGrid | None = None


def describe_all(
    paths: Iterable[SomeSource], task: FileTask, jobs: int
) -> Generator[tuple[SomeSource, DescribedFile], None, None]:
    """Describe every file or series in `jobs` processes; yield results in the order of `paths`.

    The rows of a collection then have the same order for any `jobs`, and of equal pictures the same one is kept. If
    a process dies or takes too long, the files of its chunk are tried again one by one; the file that is the reason
    is refused.

    Parameters
    ----------
    paths : iterable of Path or CtSeries
        Files or series, read a bounded number ahead.
    task : FileTask
        Settings of the run.
    jobs : int
        Greatest number of processes.
    """
    source = iter(paths)
    begun: deque[tuple[list[SomeSource], Future[list[DescribedFile]]]] = deque()
    size = 1 if task.grid else CHUNK  # a volume at a time in memory
    function, seconds = partial(describe_files, task=task), task.describe.seconds
    with FilePool(function, jobs, use_one_thread_silently, seconds) as pool:
        while True:
            while len(begun) < AHEAD * jobs and (chunk := list(islice(source, size))):
                begun.append((chunk, pool.submit(chunk)))
            if not begun:
                return
            chunk, future = begun.popleft()
            try:
                yield from zip(chunk, future.result(), strict=True)
            except WorkerDied as error:
                if len(chunk) == 1:
                    reason = TOO_SLOW if isinstance(error, WorkerTimedOut) else DIED
                    yield chunk[0], refused_file(reason)
                else:
                    begun.extendleft(([path], pool.submit([path])) for path in reversed(chunk))


def describe_files(paths: Sequence[Source], task: FileTask) -> list[DescribedFile]:
    """Decode and describe files or series. A file that cannot be used comes back refused."""
    descriptor = task.describe.load_descriptor()
    if not isinstance(descriptor, Batched):
        return [_describe_file(path, task, descriptor) for path in paths]
    files = [_describe_file(path, task, descriptor.prepare) for path in paths]
    extend_deadline(inf)  # a network is loaded with the first chunk
    return _describe_prepared(files, descriptor)


def _describe_prepared(files: list[DescribedFile], descriptor: Batched) -> list[DescribedFile]:
    """Replace what was prepared by vectors; if the network fails at an image, file by file, to refuse its file."""
    try:
        vectors = iter(descriptor.describe_batch([prepared for file in files for prepared in file.vectors]))
    except UndescribableImage as error:
        if len(files) == 1:
            return [refuse(error)]
        return [described for file in files for described in _describe_prepared([file], descriptor)]
    return [replace(file, vectors=tuple(islice(vectors, len(file.vectors)))) for file in files]


def _describe_file(path: Source, task: FileTask, compute: Callable[[Image], Any]) -> DescribedFile:
    if isinstance(path, CtSeries):
        return _describe_series(path, task, compute)
    if not path.is_file():
        return refused_file("cannot be looked into, or is no file")
    try:
        describe = task.describe
        images = with_deadline(read_inside(path, task.within, describe.limits), describe.seconds)
        with memory_limit(describe.memory_bytes):
            return describe_images(
                images,
                compute,
                describe.secret,
                str(path),
                file_stamp(path),
                refuse_burned_in=describe.refuse_burned_in,
            )
    except Exception as error:  # a bug that one file triggers must not stop the others
        return refuse(error)


def _describe_series(series: CtSeries, task: FileTask, compute: Callable[[Image], Any]) -> DescribedFile:
    describe = task.describe
    assert task.grid is not None
    try:
        extend_deadline(FILE_FRAMES * describe.seconds)
        with memory_limit(describe.memory_bytes):
            volume = read_volume(series, describe.limits, task.grid, partial(_read_inside, task=task))
            return describe_images(
                [volume],
                compute,
                describe.secret,
                str(series.source),
                series_stamp(series),
                refuse_burned_in=describe.refuse_burned_in,
            )
    except Exception as error:  # a bug that one series triggers must not stop the others
        return refuse(error)


def _read_inside(path: Path, task: FileTask) -> bytes:
    return read_file_inside(path, task.within, task.describe.limits)
