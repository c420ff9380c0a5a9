"""Pictures of images whose pixels are not stored here, rendered by the archive of the settings."""

import time
from collections.abc import Callable
from functools import partial
from threading import BoundedSemaphore
from typing import TypeVar

from cbir.errors import ArchiveFailed, UnreadableImage
from cbir.images import Limits
from cbir.ingest.archive_client import ArchiveClient
from cbir.ingest.decoder_tasks import ImageChoice
from cbir.ingest.process_memory import share_bytes
from cbir.settings import Settings
from cbir.store import Record
from cbir.system.addresses import is_uid
from service.collections.decoders import Decoders
from service.http.problems import SourceGone

Result = TypeVar("Result")

CONCURRENT_REQUESTS = 4  # to the archive; others wait
BACKOFF_SECONDS = 10.0  # pause after the archive did not answer
MAX_PIXELS = 16_000_000  # some archives ignore the requested size


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
