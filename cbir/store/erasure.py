"""Erasing a patient, also in data that features derived from the collection, and the search for traces."""

import json
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Ids
from pathlib import Path

from sqlalchemy import Connection, select

from cbir.errors import CbirError, describe_unexpected
from cbir.settings import Settings
from cbir.store.base import schema
from cbir.store.base.collection_folder import file_mode
from cbir.store.base.schema import images
from cbir.store.collection import Collection
from cbir.store.records import originals
from cbir.store.records.image_rows import content_marker
from cbir.store.safety import change_log, last_good
from cbir.store.safety.database_files import require_sound_log
from cbir.store.snapshot import stored_snapshot
from cbir.store.writing.writer import Writer
from cbir.system.features import Feature, features
from cbir.system.files import sync_folder, write_bytes

COMPACT = "`cbir collection compact` removes it"
Eraser = Callable[[Settings, Sequence[str], Ids[str]], None]
NOTHING = "nothing counts as erased"
FIRST_PART = "the images are erased, but perhaps not what was stored about them meanwhile"
UNFINISHED = "unfinished_erasure.json"  # in the folder of a collection


class EraserFailed(CbirError):
    """A feature could not remove a patient; the text says what is erased."""


def erase_everywhere(writer: Writer, settings: Settings, keys: Sequence[str]) -> int:
    """Remove a patient from the collection and from all that features have stored; return the number of images.

    Features erase twice: before the collection forgets which images are the patient's, and after, since a request
    may have stored something about one of them in between.

    Parameters
    ----------
    writer : Writer
        Of the collection.
    settings : Settings
        Its state_folder and state_database must be those of the service.
    keys : sequence of str
        Keys that the patient may have.

    Raises
    ------
    FeatureUnusable
        If a feature cannot be imported; then nothing is erased.
    EraserFailed, CbirError
        If a feature or the collection fails; repeat the erasure when the reason is gone.
    """
    erasers = list(load_erasers())
    earlier = _read_unfinished(writer.folder)
    images_by_key = {key: sorted({*earlier.get(key, []), *writer.images_of(key)}) for key in keys}
    image_ids = {image_id for ids in images_by_key.values() for image_id in ids}
    _run(erasers, settings, keys, image_ids)
    _write_unfinished(writer.folder, earlier | {key: ids for key, ids in images_by_key.items() if ids})
    count = writer.erase_patient(keys)
    _run(erasers, settings, keys, image_ids, outcome=FIRST_PART)
    _write_unfinished(writer.folder, {key: ids for key, ids in earlier.items() if key not in keys})
    return count or len({image_id for key in keys for image_id in earlier.get(key, [])})


def _read_unfinished(folder: Path) -> dict[str, list[str]]:
    """Return the images of patients whose erasure has not ended, by key: the collection may know them no more."""
    try:
        images: dict[str, list[str]] = json.loads((folder / UNFINISHED).read_bytes())
    except FileNotFoundError:
        return {}
    return images


def _write_unfinished(folder: Path, images: Mapping[str, Sequence[str]]) -> None:
    if images:
        write_bytes(folder / UNFINISHED, json.dumps(images).encode(), permissions=file_mode(folder))
    elif (folder / UNFINISHED).exists():
        (folder / UNFINISHED).unlink()
        sync_folder(folder)


def erase_deleted(settings: Settings, image_ids: Ids[str]) -> None:
    """Remove what belongs to images that are deleted, such as segmentations; saved cases keep their mention of them.

    Call it before they are: a deletion that is repeated finds no images.
    """
    erasers = [(feature, eraser) for feature, eraser in load_erasers() if feature.erases_deleted]
    _run(erasers, settings, (), image_ids)


def load_erasers() -> Iterator[tuple[Feature, Eraser]]:
    """Yield the features that store data, and their erasers; raises FeatureUnusable."""
    for feature in features():
        if feature.eraser:
            yield feature, feature.load(feature.eraser)


def _run(
    erasers: Sequence[tuple[Feature, Eraser]],
    settings: Settings,
    keys: Sequence[str],
    image_ids: Ids[str],
    outcome: str = NOTHING,
) -> None:
    """Call the erasers; `outcome` says what an erasure that fails here has done."""
    for feature, erase in erasers:
        try:
            erase(settings, keys, image_ids)
        except Exception as error:  # whose text may name the patient
            if outcome == NOTHING and isinstance(error, CbirError | OSError):
                raise
            reason = str(error) if isinstance(error, CbirError) else describe_unexpected(error)
            raise EraserFailed(
                f"{outcome}: the feature {feature.name} failed ({reason}); repeat the erasure when it works"
            ) from None


def find_traces_elsewhere(collection: Collection, settings: Settings, keys: Sequence[str]) -> list[str]:
    """Describe what features still have of erased images of a `collection`, and of patients, as `find_traces` does.

    keys: of the patients. settings: of the features. A feature that cannot tell is one of the lines.
    """
    is_erased = _erased_by(collection, keys)
    lines = []
    for feature, _ in load_erasers():
        try:
            if not feature.mentions:
                raise EraserFailed("it does not tell what it has stored")
            for name, mentions in feature.load(feature.mentions)(settings).items():
                if count := sum(map(is_erased, mentions)):
                    lines.append(
                        f"{name}: {count} erased images or keys are left; erase the patient again, or {name}"
                    )
        except Exception as error:  # whose text may name the patient
            reason = str(error) if isinstance(error, CbirError) else describe_unexpected(error)
            lines.append(f"not verified: what the feature {feature.name} has stored ({reason})")
    return lines


def _erased_by(collection: Collection, keys: Sequence[str]) -> Callable[[str], bool]:
    """Return the function that tells whether an id is of an erased image, or of a patient with these keys."""
    mark = content_marker(collection.folder)
    with collection._engine.connect() as connection:
        rows = connection.execute(select(images.c.image_id, images.c.patient_key)).all()
        marks = set(connection.scalars(select(schema.erased.c.mark)))
    present = {row.image_id for row in rows if row.patient_key not in keys}
    of_patients = {row.image_id for row in rows} - present

    def is_erased(text: str) -> bool:
        content = text.partition("-")[0]  # with which the id of an image begins
        return text in keys or text in of_patients or (text not in present and mark(content) in marks)

    return is_erased


def find_traces(collection: Collection, keys: Sequence[str]) -> list[str]:
    """Describe the traces of the patients with these keys, in words that name no patient; empty if there are none.

    Reports every file of the collection's folder with a key anywhere in its bytes, including unused database pages,
    and every file that may show an image that is not in the collection: old snapshots, originals, and a last good
    copy with more images. The caller holds the writer lock.
    """
    folder = collection.folder
    with collection._engine.connect() as connection:
        image_ids = set(connection.scalars(select(images.c.image_id)))
        traces = [*_old_snapshots(folder, connection), *_unused_originals(folder, connection)]
    traces += _surplus_in_copy(folder / last_good.NAME, image_ids)
    for name in (last_good.PARTIAL, last_good.PREVIOUS):
        if (folder / name).exists():
            traces.append(f"{name} is what an interrupted snapshot left; {COMPACT}")
    patterns = [
        pattern for key in keys if key for pattern in (key.encode(), change_log.logged_text(key).encode())
    ]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if any(_contains(path, pattern) for pattern in patterns):
            traces.append(
                f"{path.relative_to(folder)} still contains the patient's key; erase the patient again"
            )
    return traces


def _contains(path: Path, pattern: bytes) -> bool:
    try:
        if path.stat().st_size == 0:  # cannot be mapped
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return mapped.find(pattern) >= 0
    except FileNotFoundError:  # SQLite's log goes when the last connection is closed
        return False


def _old_snapshots(folder: Path, connection: Connection) -> Iterator[str]:
    info = stored_snapshot.read_snapshot_info(connection, folder)
    current = set(info.files) if info else set()
    for path in sorted((folder / "snapshots").glob("*")):
        if path.name not in current:
            yield f"snapshots/{path.name} is of an earlier state; {COMPACT}"


def _unused_originals(folder: Path, connection: Connection) -> Iterator[str]:
    count = len(originals.unneeded_originals(connection, folder))
    if count:
        remedy = (
            "`cbir collection backup --append` removes them" if change_log.is_logged(connection) else COMPACT
        )
        yield f"{count} files in {originals.FOLDER} belong to no image of the collection; {remedy}"


def _surplus_in_copy(copy: Path, image_ids: set[str]) -> Iterator[str]:
    if not (copy / schema.DATABASE).is_file():
        return
    require_sound_log(copy)
    engine = schema.connect(copy)
    try:
        with engine.connect() as connection:
            copied = set(connection.scalars(select(images.c.image_id)))
    finally:
        engine.dispose()
    if copied - image_ids:
        yield f"{copy.name} shows {len(copied - image_ids)} images that are not in the collection; {COMPACT}"
