"""Pictures of images whose pixels are not kept here, from the archive that the settings name."""

import time
from threading import BoundedSemaphore, Lock

from cbir.addresses import is_uid
from cbir.archive import Archive
from cbir.errors import ArchiveFailed, UnreadableImage
from cbir.images import Image, Limits, decode
from cbir.settings import Settings
from cbir.store import Record
from service.problems import SourceGone

AT_ONCE = 4  # requests to the archive; others wait
REST_SECONDS = 10.0  # an archive that did not answer is not asked again before
MOST_PIXELS = 16_000_000  # some archives ignore the size that is asked for


class Pictures:
    """Asks an archive. Thread-safe. archive: None where the settings name none."""

    def __init__(self, settings: Settings) -> None:
        self.archive = Archive(settings.archive_url) if settings.archive_url else None
        self._asking = BoundedSemaphore(AT_ONCE)
        self._lock = Lock()
        self._rest_until = 0.0

    def of(self, record: Record, side: int) -> Image | None:
        """The picture of an image, its longer side about `side` pixels; None where there is no archive to ask.

        Raises SourceGone where it does not give the picture.
        """
        if self.archive is None or not all(map(is_uid, (record.study, record.series, record.instance))):
            return None
        side = min(side, max(record.width, record.height))  # some archives would enlarge it
        with self._asking:
            with self._lock:
                resting = time.monotonic() < self._rest_until
            if resting:
                raise SourceGone(
                    "the picture of this image is not kept here, and the archive does not answer"
                )
            try:
                data = self.archive.rendered(record.study, record.series, record.instance, record.frame, side)
                return next(decode(data, "the archive's picture", limits=Limits(pixels=MOST_PIXELS)))
            except (ArchiveFailed, UnreadableImage, StopIteration) as error:
                if isinstance(error, ArchiveFailed) and not error.answered:
                    with self._lock:
                        self._rest_until = time.monotonic() + REST_SECONDS
                raise SourceGone(
                    "the picture of this image is not kept here, and the archive does not give it"
                ) from error
