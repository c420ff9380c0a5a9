"""Describe uploaded files."""

from collections.abc import Sequence
from dataclasses import replace

from cbir.descriptors.descriptor import Descriptor
from cbir.images import Limits, decode
from cbir.ingest.description import DescribedFile, DescribeTask, describe_images
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
    deadline = Deadline()
    task = DescribeTask.for_collection(collection, Limits(pixels=settings.max_pixels), settings.device)
    compute = task.load_descriptor()
    return [
        ReceivedFile(
            data, _describe_upload(data, file_labels, task, compute, deadline, settings.store_thumbnails)
        )
        for data, file_labels in zip(files, labels, strict=True)
    ]


def _describe_upload(
    data: bytes,
    labels: dict[str, str],
    task: DescribeTask,
    compute: Descriptor,
    deadline: Deadline,
    thumbnails: bool,
) -> DescribedFile:
    described = describe_images(
        deadline.iterate(decode(data, UPLOAD_NAME, limits=task.limits)),
        compute,
        secret=task.secret,
        source=originals.source_of(data),
        source_stamp="sent",
        thumbnails=thumbnails,
    )
    records = tuple(add_labels(record, labels, task.secret) for record in described.records)
    return replace(described, records=records)
