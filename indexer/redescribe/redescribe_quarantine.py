"""Describe the quarantined images of a collection again, for the quarantine of a second collection."""

from collections.abc import Callable
from contextlib import closing
from itertools import groupby, islice
from pathlib import Path

from cbir.ingest.object_store import StoredObject, find_object, is_object_url
from cbir.store.upkeep.carry_over import CarryOver
from indexer.describe_files import FileTask
from indexer.index_run import BATCH_IMAGES
from indexer.open_file_pool import describe_all

Refuse = Callable[[str, str], None]

NOT_CARRIED = "it is in quarantine, and {}; release or refuse it in the first collection"
FILE_GONE = "its file is no longer there"
PICTURE_CHANGED = "its file shows another picture"


def redescribe_quarantine(carry_over: CarryOver, task: FileTask, jobs: int, refuse: Refuse) -> int:
    """Carry quarantined images over; return their number.

    Parameters
    ----------
    carry_over : CarryOver
        Between the two collections.
    task : FileTask
        Settings, with the profile of the second.
    jobs : int
        Processes.
    refuse : callable
        Called with the id of an image that stays behind, and the reason.
    """
    files: dict[Path | StoredObject, list[str]] = {}
    for source, images in groupby(carry_over.missing_in_quarantine(), lambda image: image[1]):
        ids = [image_id for image_id, _ in images]
        file = find_object(source) if is_object_url(source) else Path(source)
        if isinstance(file, StoredObject) or (file is not None and file.is_file()):
            files[file] = ids
            continue
        for image_id in ids:
            refuse(image_id, NOT_CARRIED.format(FILE_GONE))
    count = 0
    sources = iter(files)
    while part := list(islice(sources, BATCH_IMAGES)):
        described = {}
        with closing(describe_all(iter(part), task, jobs)) as results:
            for file, result in results:
                vectors = {
                    record.content_hash: vector
                    for record, vector in zip(result.records, result.vectors, strict=True)
                }
                for image_id in files[file]:
                    if image_id in vectors:
                        described[image_id] = vectors[image_id]
                    else:
                        refuse(image_id, NOT_CARRIED.format(PICTURE_CHANGED))
        count += carry_over.quarantine(described)
    return count
