"""Pictures of a collection as small squares, which duplicates are proved with, and work on them on all cores."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.errors import CbirError
from cbir.images import Image, decode
from cbir.images.reading import suppress_decoder_logs
from cbir.ingest.process_pool import ProcessPool, WorkerDied, prepare_to_decode
from cbir.learn.severity.stored_images import read_stored_image
from cbir.store import Collection, Record
from cbir.system.threads import OneBlasThread, checkpoint, cores

SIDE = 64  # of the squares that are kept in memory
FINE = 128  # of those that decide
BLANK = 2.0  # grey levels of standard deviation: a picture with less shows nothing
KEPT = 2000  # fine squares
Picture = NDArray[np.uint8]
# Threads wait for Python's lock for almost half of the time, but processes take two seconds to start.
LEAST_FOR_PROCESSES = 5000  # images
AHEAD = 4  # tasks that wait, for each core
Task = TypeVar("Task")
Result = TypeVar("Result")


class PictureReader:
    """Reads pictures from thumbnails, which are smaller, or else from files of at most `max_pixels`."""

    def __init__(self, collection: Collection, max_pixels: int) -> None:
        self.collection, self.max_pixels = collection, max_pixels
        self._with_thumbnail = collection.ids_with_thumbnail()

    def square(self, record: Record, side: int = SIDE) -> Picture | None:
        """Return the picture of a record, stretched; None if it cannot be read."""
        image = self._read(record)
        return None if image is None else to_square(image.grey, side)

    def _read(self, record: Record) -> Image | None:
        try:
            has_thumbnail = record.image_id in self._with_thumbnail
            if has_thumbnail and (thumbnail := self.collection.thumbnail(record.image_id)):
                return next(iter(decode(thumbnail)))
        except CbirError:
            pass
        try:
            return read_stored_image(self.collection, record, self.max_pixels)
        except CbirError:
            return None


class Squares(NamedTuple):
    """Pictures of n images, stretched to squares.

    numbers: (n,) int64, of the images. sizes: (n,) int64, their longer sides in pixels. pixels: (n, 64, 64) uint8.
    """

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    pixels: NDArray[np.uint8]

    def of(self, rows: NDArray[np.int64]) -> "Squares":
        """Return those of some rows."""
        return Squares._make(values[rows] for values in self)


class Pictures:
    """Squares, and larger ones, which are read when they are needed.

    Parameters
    ----------
    reader : PictureReader
    squares : Squares
    records : mapping of int to Record
        By number; those of deleted images may be missing.
    """

    def __init__(self, reader: PictureReader, squares: Squares, records: Mapping[int, Record]) -> None:
        self.squares, self._reader, self._records = squares, reader, records
        self.fine = lru_cache(KEPT)(self._fine)

    def fine_side(self, first: int, second: int) -> int:
        """Return the side of the squares that two rows are compared by: the smaller's size, but 64 to 128."""
        return min(max(self.common_size(first, second), SIDE), FINE)

    def common_size(self, first: int, second: int) -> int:
        """Return the longer side of the smaller of two rows."""
        return max(int(min(self.squares.sizes[first], self.squares.sizes[second])), 1)

    def _fine(self, row: int, side: int) -> Picture:
        record = self._records.get(int(self.squares.numbers[row])) if side > SIDE else None
        square = self._reader.square(record, side) if record else None
        return to_square(self.squares.pixels[row], side) if square is None else square


def to_square(grey: Picture, side: int) -> Picture:
    """Stretch grey pixels (height, width) to a square."""
    method = cv2.INTER_AREA if max(grey.shape) > side else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(grey, (side, side), interpolation=method), np.uint8)


Submit = Callable[[Callable[[PictureReader, Any], Any], Any], Future[Any]]


class PictureWorkers:
    """Threads or processes, each with a reader of the pictures."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit

    def map(self, work: Callable[[PictureReader, Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield work(reader, task) of each task in their order, with a checkpoint before each.

        `work` is a function of a module; tasks and results can be pickled. Raises CbirError if a process dies.
        """
        running = deque[Future[Result]]()
        for task in tasks:
            running.append(self._submit(work, task))
            if len(running) > AHEAD * cores():
                yield _wait(running.popleft())
        while running:
            yield _wait(running.popleft())


def _wait(future: Future[Result]) -> Result:
    checkpoint()
    try:
        return future.result()
    except WorkerDied as error:
        raise CbirError(
            "a process of the audit died, perhaps out of memory; run the audit again when more is free"
        ) from error


@contextmanager
def picture_workers(reader: PictureReader, images: int) -> Iterator[PictureWorkers]:
    """Start threads or processes for so many images; on exit, tasks that have not begun are dropped."""
    if images < LEAST_FOR_PROCESSES or cores() == 1:
        executor = ThreadPoolExecutor(cores())
        try:
            with OneBlasThread():
                yield PictureWorkers(lambda work, task: executor.submit(work, reader, task))
        finally:
            executor.shutdown(cancel_futures=True)
        return
    call = partial(_Call, reader.collection.folder, reader.max_pixels)
    with ProcessPool(_run, cores(), prepare_to_decode) as pool:
        yield PictureWorkers(lambda work, task: pool.submit(call(work, task)))


class _Call(NamedTuple):
    folder: Path
    max_pixels: int
    work: Callable[[PictureReader, Any], Any]
    task: Any


@cache  # opened by the first task, whose error says why it cannot be
def _open_reader(folder: Path, max_pixels: int) -> PictureReader:
    return PictureReader(Collection(folder), max_pixels)


def _run(call: _Call) -> Any:
    with suppress_decoder_logs():  # once: each time, logging forgets which of its loggers are enabled
        return call.work(_open_reader(call.folder, call.max_pixels), call.task)
