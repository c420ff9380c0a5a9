"""Erasing a patient outside of the collection, in data that features derived from it, and the search for traces."""

import mmap
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Collection as Ids
from pathlib import Path

from sqlalchemy import Connection, select

from cbir.errors import CbirError, describe_unexpected
from cbir.settings import Settings
from cbir.store.base import schema
from cbir.store.base.schema import images
from cbir.store.collection import Collection
from cbir.store.records import originals
from cbir.store.records.image_rows import content_marker
from cbir.store.safety import change_log, last_good
from cbir.store.safety.database_files import require_sound_log
from cbir.store.snapshot import stored_snapshot
from cbir.system.features import Feature, features

COMPACT = "`cbir collection compact` removes it"
Eraser = Callable[[Settings, Sequence[str], Ids[str]], None]


class EraserFailed(CbirError):
    """A feature could not remove a patient, so that nothing counts as erased."""


def erase_elsewhere(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove a patient from everything that features have stored.

    Call it before the collection forgets which images are the patient's.

    Parameters
    ----------
    settings : Settings
        Its state_folder and state_database must be those of the service.
    keys : sequence of str
        Keys that the patient may have.
    image_ids : collection of str
        Images of the patient.

    Raises
    ------
    FeatureUnusable
        If a feature cannot be imported; then none has erased anything.
    EraserFailed, CbirError
        If a feature fails; repeat the erasure when the reason is gone.
    """
    _run(list(load_erasers()), settings, keys, image_ids)


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
    erasers: Sequence[tuple[Feature, Eraser]], settings: Settings, keys: Sequence[str], image_ids: Ids[str]
) -> None:
    for feature, erase in erasers:
        try:
            erase(settings, keys, image_ids)
        except (CbirError, OSError):
            raise
        except Exception as error:  # whose text may name the patient
            raise EraserFailed(
                f"nothing counts as erased: the feature {feature.name} failed ({describe_unexpected(error)}); "
                "repeat the erasure when it works"
            ) from None


def find_traces_elsewhere(collection: Collection, settings: Settings, keys: Sequence[str]) -> list[str]:
    """Describe what features still have of erased images, and of the patients with these keys, as `find_traces` does.

    A feature that cannot tell is one of the lines: nothing is known about it then.
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
