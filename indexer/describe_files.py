"""Description of files in parallel processes: records and vectors, of allowed folders alone."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cbir.descriptors.descriptor import Batched
from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, decode, read_images
from cbir.images.ct_series import CtSeries, read_volume
from cbir.images.reading import read_file, recognise_format, suppress_decoder_logs
from cbir.images.volume import VolumeGrid
from cbir.ingest.description import (
    FILE_FRAMES,
    DescribedFile,
    DescribeTask,
    Refusal,
    describe_images,
    describe_prepared,
    refuse,
    refused_file,
    with_deadline,
)
from cbir.ingest.image_files import file_stamp, series_stamp
from cbir.ingest.object_store import ObjectStoreFailed, StoredObject, read_object
from cbir.ingest.process_memory import memory_limit
from cbir.ingest.process_pool import (
    WorkerDied,
    WorkerTimedOut,
    extend_deadline,
)
from cbir.store.base.reserved_labels import SLICE_PLACE
from cbir.store.records.records import person_labels, stored_place
from cbir.system.files import is_inside

OUTSIDE = "leads out of the folders that may be indexed (index_roots)"


def read_inside(
    path: Path, within: Sequence[Path], limits: Limits, find_damage: bool = False
) -> Iterator[Image]:
    """Read an image file as `cbir.images.read_images` does, if it is inside an allowed folder.

    Parameters
    ----------
    path : Path
        File.
    within : sequence of Path
        Allowed folders; empty: no restriction.
    limits : Limits
        Largest file and image.
    find_damage : bool
        Also look for damage that decoders conceal.

    Yields
    ------
    Image
        Each frame or page.

    Raises
    ------
    UnreadableImage
        Also if the opened file is outside the folders.
    OSError
        If the file cannot be opened.
    """
    if within:
        data = read_file_inside(path, within, limits)
        yield from decode(data, path.name, limits=limits, find_damage=find_damage)
    else:
        yield from read_images(path, limits=limits, find_damage=find_damage)


def read_file_inside(path: Path, within: Sequence[Path], limits: Limits) -> bytes:
    """Return the content of a file, if it is inside an allowed folder; see `read_inside`."""
    if not within:
        return read_file(path, limits)
    with open(path, "rb", opener=_open_nonblocking) as file:
        # On Linux this gives the path of the opened file, even if links have changed since.
        opened = Path(f"/proc/self/fd/{file.fileno()}")
        if not is_inside(opened if opened.exists() else path, within):
            raise UnreadableImage(OUTSIDE)
        size = os.fstat(file.fileno()).st_size
        try:
            limits.check_bytes(size)
        except UnreadableImage as error:
            raise UnreadableImage(f"{path.name} {error}") from error
        return file.read(size)


def _open_nonblocking(path: str, flags: int) -> int:
    # A pipe that has replaced the file may never be written to.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


CHUNK = 32  # files of one task
AHEAD = 8  # tasks waiting for each process: busy through a commit, and memory bounded
AHEAD_PREPARED = 2  # the same where results are inputs of a network, which are larger than vectors
DIED = "its process died on it: a decoder crashed, or memory ran out"
NO_FILE = refused_file("cannot be looked into, or is no file")
NOT_HERE = DescribedFile(
    refusal=Refusal.not_here, refused="is not seen by the machine that should describe it"
)
TOO_SLOW = "takes longer to decode than index_decode_seconds allows"
Source = Path | StoredObject | CtSeries  # a file or object with images, or the files of a series
SomeSource = TypeVar("SomeSource", Path, Path | StoredObject, CtSeries)


@dataclass(frozen=True)
class FileTask:
    """Settings of a run.

    within: folders that files may be read from; any if empty. grid: of the series of a profile for volumes.
    """

    describe: DescribeTask
    within: tuple[Path, ...] = ()
    grid: VolumeGrid | None = None


@dataclass(frozen=True, eq=False)
class SentSource:
    """A source that another machine describes.

    stamp: of the source as this machine sees it; None where it is described on the same machine. contents: of its
    files, where the other machine does not see them.
    """

    source: Source
    stamp: str | None = None
    contents: Mapping[Path | StoredObject, bytes] | None = None


class FilePool(Protocol):
    """Processes that describe files."""

    @property
    def jobs(self) -> int:
        """Number of processes."""
        ...

    def submit(self, task: Sequence[Source]) -> "Future[list[DescribedFile]]":
        """Queue files; the result raises WorkerDied if the process died on one of them."""
        ...


def describe_in(
    pool: FilePool, sources: Iterable[SomeSource], task: FileTask
) -> Generator[tuple[SomeSource, DescribedFile], None, None]:
    """Describe every file or series in the processes of `pool`; yield results in the order of `sources`.

    The rows of a collection then have the same order for any pool, and of equal pictures the same one is kept. If
    a process dies or takes too long, the files of its chunk are tried again one by one; the file that is the reason
    is refused.

    Parameters
    ----------
    pool : FilePool
        Calls `describe_files` with the settings of the run.
    sources : iterable of Path, StoredObject or CtSeries
        Files or series, read a bounded number ahead.
    task : FileTask
        Settings of the run.
    """
    source = iter(sources)
    begun: deque[tuple[list[SomeSource], Future[list[DescribedFile]]]] = deque()
    size = 1 if task.grid else CHUNK  # a volume at a time in memory
    ahead = AHEAD_PREPARED if task.describe.prepare_only else AHEAD
    while True:
        while len(begun) < ahead * pool.jobs and (chunk := list(islice(source, size))):
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


def describe_files(sources: Sequence[Source | SentSource], task: FileTask) -> list[DescribedFile]:
    """Decode and describe files or series. A file that cannot be used comes back refused."""
    descriptor = task.describe.load_descriptor()
    sent = [source if isinstance(source, SentSource) else SentSource(source) for source in sources]
    if not isinstance(descriptor, Batched):
        return _describe_each(sent, task, descriptor)
    files = _describe_each(sent, task, descriptor.prepare)
    if task.describe.prepare_only:
        return files
    extend_deadline(inf)  # a network is loaded with the first chunk
    return describe_prepared(files, descriptor)


def read_source(path: Path | StoredObject, task: FileTask) -> bytes:
    """Return the content of a file, if it is inside the allowed folders, or of an object."""
    limits = task.describe.limits
    return (
        read_object(path, limits)
        if isinstance(path, StoredObject)
        else read_file_inside(path, task.within, limits)
    )


def source_stamp(source: Source) -> str:
    """Return a text that changes when a file, an object or a series does; raises OSError if a file is missing."""
    if isinstance(source, StoredObject):
        return source.stamp
    return series_stamp(source) if isinstance(source, CtSeries) else file_stamp(source)


def files_of(source: Source) -> tuple[Path | StoredObject, ...]:
    """Return the files that a source consists of."""
    return source.paths if isinstance(source, CtSeries) else (source,)


def _describe_each(
    sent: Sequence[SentSource], task: FileTask, compute: Callable[[Image], Any]
) -> list[DescribedFile]:
    """Describe sources; once an object store fails here, the other objects are not tried: each would take as long."""
    files: list[DescribedFile] = []
    for source in sent:
        is_read = isinstance(source.source, StoredObject) and source.contents is None
        failed = bool(files) and files[-1].refusal in (Refusal.store_silent, Refusal.not_here)
        files.append(files[-1] if is_read and failed else _describe_source(source, task, compute))
    return files


def _describe_source(sent: SentSource, task: FileTask, compute: Callable[[Image], Any]) -> DescribedFile:
    describe, source = task.describe, sent.source
    try:
        if isinstance(source, Path) and not sent.contents and not sent.stamp and not source.is_file():
            if source.is_dir():
                os.listdir(source)  # fails, or it would not be among the files
            return NO_FILE
        if (stamp := _stamp(sent)) is None:
            return NOT_HERE
        if isinstance(source, StoredObject) and sent.contents is None:  # the limit is for decoding
            extend_deadline(FILE_FRAMES * describe.seconds)
            sent = replace(sent, contents={source: read_object(source, describe.limits)})
        with memory_limit(describe.memory_bytes):
            return describe_images(
                _images(sent, task),
                compute,
                describe.secret,
                str(source.source if isinstance(source, CtSeries) else source),
                stamp,
                thumbnails=describe.check_intake,  # those of quarantined images are shown
                refuse_burned_in=describe.refuse_burned_in,
                check_intake=describe.check_intake,
                study_days=describe.study_days,
            )
    except ObjectStoreFailed as error:
        return NOT_HERE if sent.stamp else refuse(error)
    except Exception as error:  # a bug that one file triggers must not stop the others
        return refuse(error)


def _stamp(sent: SentSource) -> str | None:
    """Return the stamp of a source; None if this machine does not see the same."""
    if sent.stamp is None or sent.contents is not None:
        return sent.stamp or source_stamp(sent.source)
    try:
        return sent.stamp if source_stamp(sent.source) == sent.stamp else None
    except OSError:
        return None


def _images(sent: SentSource, task: FileTask) -> Iterator[Image]:
    """Yield the frames of a file, or the volume of a series."""
    describe, source = task.describe, sent.source
    if isinstance(source, CtSeries):
        assert task.grid is not None
        extend_deadline(FILE_FRAMES * describe.seconds)
        yield read_volume(source, describe.limits, task.grid, partial(_read, sent=sent, task=task))
        return
    if isinstance(source, Path) and sent.contents is None:
        frames = read_inside(source, task.within, describe.limits, describe.check_intake)
    else:
        data, check = _read(source, sent, task), describe.check_intake
        frames = decode(data, source.name, limits=describe.limits, find_damage=check)
    yield from with_deadline(frames, describe.seconds)


def _read(path: Path | StoredObject, sent: SentSource, task: FileTask) -> bytes:
    return read_source(path, task) if sent.contents is None else sent.contents[path]


FrameFacts = dict[int | None, dict[str, str]]


def read_header_facts(read: Callable[[], bytes], describe: DescribeTask) -> FrameFacts:
    """Return labels and place of the frames of a DICOM file by their numbers, None for a single one.

    Nothing where the file cannot be read. read: returns its content.
    """
    from cbir.images.dicom_dataset import frame_count, read_header  # imports pydicom, as below
    from cbir.images.dicom_decoder import dicom_header
    from cbir.images.dicom_facts import read_slice_place

    try:
        with suppress_decoder_logs():
            data = read()
            if recognise_format(data) != "dicom":
                return {}
            dataset = read_header(data, describe.limits, None)
            header, count = dicom_header(dataset), frame_count(dataset)
            dated = header.patient_id if describe.study_days else ""
            labels = person_labels(header)
            return {
                index + 1 if count > 1 else None: labels
                | {
                    SLICE_PLACE: stored_place(
                        describe.secret, dated, header.series, read_slice_place(dataset, index)
                    )
                }
                for index in range(min(count, describe.limits.frames))
            }
    except Exception:  # damaged files raise anything; the images stay as they are
        return {}
