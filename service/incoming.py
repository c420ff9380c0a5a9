"""From files that were sent to records, vectors and thumbnails."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, insert

from cbir import descriptors
from cbir.errors import UnreadableImage
from cbir.images import Limits, decode
from cbir.images.thumbnail import make_thumbnail
from cbir.settings import Settings
from cbir.store import Collection, originals, schema
from cbir.store.records import add_labels, describe_record
from cbir.store.writer import Added, Entry
from service.http.request_params import NAME
from service.http.timeouts import Watch


@dataclass(frozen=True)
class Sent:
    """One file: its frames as entries with their thumbnails (JPEG, b"" for none), or why there are no frames."""

    data: bytes
    entries: tuple[Entry, ...] = ()
    pictures: tuple[bytes, ...] = ()
    refused: str | None = None


def extract(
    collection: Collection, settings: Settings, files: list[bytes], labels: list[dict[str, str]]
) -> list[Sent]:
    """Decode and describe files; one that cannot be used comes back with its reason.

    Ends between two frames where the client has left: nothing has been written yet.
    """
    watch = Watch()
    return [_extract(collection, settings, watch, *one) for one in zip(files, labels, strict=True)]


def _extract(
    collection: Collection, settings: Settings, watch: Watch, data: bytes, labels: dict[str, str]
) -> Sent:
    describe = descriptors.get(collection.profile.descriptor)
    secret, source = collection.secret, originals.source(data)
    entries: list[Entry] = []
    pictures: list[bytes] = []
    try:
        for image in decode(data, NAME, limits=Limits(pixels=settings.max_pixels)):
            record = describe_record(image, source=source, source_stamp="sent", secret=secret)
            entries.append((add_labels(record, labels, secret), describe(image)))
            pictures.append(make_thumbnail(image) if settings.store_thumbnails else b"")
            watch.look()
    except UnreadableImage as error:
        return Sent(data, refused=str(error))
    return Sent(data, tuple(entries), tuple(pictures))


def store(connection: Connection, folder: Path, sent: list[Sent], added: Added, keep_originals: bool) -> None:
    """Within the transaction that adds them: keep the thumbnails of new images, and the files where wanted."""
    each = iter(added.each)
    rows = []
    for one in sent:
        new = False
        for picture in one.pictures:
            what, image_id = next(each)
            if what == "added" and image_id:
                new = True
                if picture:
                    rows.append({"number": added.numbers[image_id], "picture": picture})
        if new and keep_originals:
            originals.keep(folder, one.data)
    if rows:
        connection.execute(insert(schema.thumbnails), rows)
