"""Describe uploaded files."""

from collections.abc import Sequence
from dataclasses import replace

from cbir.images import Limits, decode
from cbir.ingest.description import describe_images
from cbir.ingest.received_files import ReceivedFile
from cbir.settings import Settings
from cbir.store import Collection, originals
from cbir.store.records import add_labels
from service.http.request_params import UPLOAD_NAME
from service.http.timeouts import Deadline


def describe_uploads(
    collection: Collection, settings: Settings, files: Sequence[bytes], labels: Sequence[dict[str, str]]
) -> list[ReceivedFile]:
    """Decode and describe files; those that cannot be used are refused.

    Stops between two frames if the client has left: nothing has been written yet.

    Parameters
    ----------
    collection : Collection
        Its descriptor is used.
    settings : Settings
        Limits, device, and whether thumbnails are stored.
    files : sequence of bytes
        Contents of the files.
    labels : sequence of dict
        Labels of each file.
    """
    deadline, limits, secret = Deadline(), Limits(pixels=settings.max_pixels), collection.secret
    compute = collection.profile.load_descriptor(settings.device)

    def describe(data: bytes, file_labels: dict[str, str]) -> ReceivedFile:
        frames = deadline.iterate(decode(data, UPLOAD_NAME, limits=limits))
        source = originals.source_of(data)
        described = describe_images(frames, compute, secret, source, "sent", settings.store_thumbnails)
        records = tuple(add_labels(record, file_labels, secret) for record in described.records)
        return ReceivedFile(data, replace(described, records=records))

    return list(map(describe, files, labels))
