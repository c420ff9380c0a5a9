"""Pictures of a collection, from files, the archive and memory, and the processes that decode what is untrusted."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, TypeVar, cast

from cbir.errors import ArchiveFailed, NotEnoughMemory, UnreadableImage
from cbir.images import Limits, Region
from cbir.ingest.archive_client import ArchiveClient
from cbir.ingest.decoder_tasks import ImageChoice, OtherPicture, describe_bytes, run_limited
from cbir.ingest.description import DescribeTask
from cbir.ingest.object_store import ObjectStoreFailed, is_object_url, read_url
from cbir.ingest.process_memory import SharedBytes, share_bytes
from cbir.ingest.process_pool import (
    ProcessPool,
    WorkerDied,
    WorkerTimedOut,
    prepare_to_decode,
)
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.records import originals
from cbir.system.addresses import is_uid
from service.access.caller import caller_key
from service.http.concurrency import FairTurns, NoTurn
from service.http.problems import SourceGone, TooManyRequests
from service.http.timeouts import Deadline

Result = TypeVar("Result")
Task = Callable[[], Any]
CONCURRENT_REQUESTS = 4  # to the archive; others wait
BACKOFF_SECONDS = 10.0  # pause after the archive did not answer
MAX_PIXELS = 16_000_000  # some archives ignore the requested size
NO_FILE = "the file of this image is no longer where it was when it was indexed"
UNREADABLE = "the file of this image can no longer be read as an image"
CHANGED = "the file of this image shows another picture than when it was indexed"

log = logging.getLogger(__name__)


class Decoders:
    """Runs tasks of `cbir.ingest.decoder_tasks` in decoder processes. Thread-safe.

    limits: of the images that requests send or name.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits = Limits.from_settings(settings)
        self._pool, self._turns = _shared_pool(
            settings.decoders, settings.decoder_bytes, settings.decode_seconds
        )

    def run(self, task: Callable[[], Result], check: Callable[[], None] = lambda: None) -> Result:
        """Run a task and wait for its result; callers take turns (see `FairTurns`).

        Parameters
        ----------
        task : callable
            A function that can be imported, with its arguments: it is pickled.
        check : callable
            Called while the task waits or runs; if it raises, the task is killed.

        Raises
        ------
        TooManyRequests
            If all processes were busy for `decode_seconds`.
        UnreadableImage
            If the task took longer than that, or its process died.
        """
        seconds = self.settings.decode_seconds
        try:
            with self._turns.turn(caller_key(), check, seconds):
                return cast(Result, self._pool.run(task, check))
        except NoTurn:
            raise TooManyRequests("all decoders are busy with other images; try again in a moment") from None
        except WorkerTimedOut:
            log.warning("an image was not decoded in %g seconds (decode_seconds)", seconds)
            raise UnreadableImage(
                f"the image takes longer than {seconds:g} seconds to decode (decode_seconds); make it smaller"
            ) from None
        except WorkerDied:
            log.warning("an image made its decoder end")
            raise UnreadableImage("the image makes its decoder crash; export it again") from None

    def start(self) -> None:
        """Start all processes now."""
        self._pool.start()

    def warm_up(self, task: DescribeTask, example: bytes) -> None:
        """Let every process describe the file `example`, so that no request waits for imports."""
        describe = partial(describe_bytes, example, "the example", "", task, False)
        for future in [self._pool.submit(describe) for _ in range(self._pool.jobs)]:
            future.result()


@cache
def _shared_pool(jobs: int, memory_bytes: int, seconds: float) -> tuple[ProcessPool[Task, Any], FairTurns]:
    """Return the decoders of this process and the turns at them; apps with equal settings share them."""
    run = partial(run_limited, memory_bytes=memory_bytes)
    return ProcessPool(run, jobs, prepare_to_decode, seconds, (NotEnoughMemory,)), FairTurns(jobs)


class LruCache:
    """Pictures by key; the least recently used are dropped above `max_bytes`. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._pictures: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> bytes | None:
        """Return the picture of `key`, None if it is not cached."""
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
            return self._pictures.get(key)

    def put(self, key: str, picture: bytes) -> None:
        """Store `picture` under `key`."""
        with self._lock:
            self.size += len(picture) - len(self._pictures.pop(key, b""))
            self._pictures[key] = picture
            while self.size > self.max_bytes:
                self.size -= len(self._pictures.popitem(last=False)[1])

    def clear(self) -> None:
        """Drop all pictures."""
        with self._lock:
            self._pictures.clear()
            self.size = 0


class ArchiveThumbnails:
    """Renders images by a DICOMweb archive. Thread-safe. archive: None if the settings name no archive."""

    def __init__(self, settings: Settings, decoders: Decoders) -> None:
        self._decoders = decoders
        self.archive = ArchiveClient(settings.archive_url) if settings.archive_url else None
        self._slots = BoundedSemaphore(CONCURRENT_REQUESTS)
        self._backoff_until = 0.0

    def render(self, record: Record, side: int, function: Callable[[ImageChoice], Result]) -> Result | None:
        """Return a picture of an image; None without an archive.

        Parameters
        ----------
        record : Record
            Record of the image.
        side : int
            Longer side to request, in pixels.
        function : callable
            Task of `cbir.ingest.decoder_tasks` that makes the picture from the archive's.

        Raises
        ------
        SourceGone
            If the archive does not answer or does not deliver the image.
        """
        if self.archive is None or record.format == "nifti":  # no archive knows its UIDs
            return None
        if not all(map(is_uid, (record.study, record.series, record.instance))):
            return None
        side = min(side, max(record.width, record.height))  # some archives would enlarge it
        with self._slots:
            if time.monotonic() < self._backoff_until:
                raise SourceGone(
                    "the picture of this image is not stored here, and the archive does not answer"
                )
            try:
                data = self.archive.rendered(record.study, record.series, record.instance, record.frame, side)
                with share_bytes(data) as shared:
                    choice = ImageChoice(shared, "the archive's picture", Limits(pixels=MAX_PIXELS))
                    return self._decoders.run(partial(function, choice))
            except (ArchiveFailed, UnreadableImage) as error:
                if isinstance(error, ArchiveFailed) and not error.answered:
                    self._backoff_until = time.monotonic() + BACKOFF_SECONDS
                raise SourceGone(
                    "the picture of this image is not stored here, and the archive does not deliver it"
                ) from error


def decode_source(
    decoders: Decoders,
    collection: Collection,
    record: Record,
    function: Callable[[ImageChoice], Result],
    region: Region | None = None,
) -> Result:
    """Decode the image of a record from its source file, in a decoder process.

    Parameters
    ----------
    decoders : Decoders
        Processes to decode in.
    collection : Collection
        Collection of the record.
    record : Record
        Record of the image.
    function : callable
        Task of `cbir.ingest.decoder_tasks`, called with the choice of the image.
    region : tuple of int, optional
        Part of the image: x, y, width, height.

    Raises
    ------
    SourceGone
        If the file is missing, unreadable, or shows another picture than when it was indexed; or the object store
        that has it does not deliver it.
    """
    # Of a series the file shows one slice, and the hash is that of its voxels
    content = None if collection.profile.volume_grid else record.content_hash
    limits = decoders.limits
    file = _source_file(collection, record, limits)
    choice = ImageChoice(file, "the file", limits, record.frame, region, content_hash=content)
    try:
        return decoders.run(partial(function, choice), Deadline().check)
    except OtherPicture as error:
        raise SourceGone(CHANGED) from error
    except UnreadableImage as error:
        raise SourceGone(UNREADABLE) from error


def _source_file(collection: Collection, record: Record, limits: Limits) -> SharedBytes | Path:
    if is_object_url(record.source):
        try:
            return read_url(record.source, limits)
        except ObjectStoreFailed as error:
            raise SourceGone(str(error)) from None
        except UnreadableImage as error:
            raise SourceGone(UNREADABLE) from error
    path = originals.original_path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise SourceGone(NO_FILE)
    return path
