"""The writing side of a collection: every call is one transaction, on the disk when it returns."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.dialects.sqlite import insert as insert_or
from sqlalchemy.exc import DatabaseError

from cbir.errors import CollectionBusy
from cbir.store import derived, facts, gradings, history, last_good, learnt, originals, replies, schema
from cbir.store.profile import Profile
from cbir.store.records import Record
from cbir.store.rows import Entry, delete_images, delete_rows, ids_of, insert_entries, matching, parts
from cbir.store.schema import forgotten, images, labels

UNCHANGED = ("image_id", "content_hash", "labels")  # of an image whose source is read again


@dataclass(frozen=True)
class Added:
    """What became of a call of `add`. ids: of the images now in the collection because of it.

    each: for every entry its outcome ("added", "duplicate", "deleted earlier", or "updated" where the picture was
    there from this very source) and an image that shows its picture, None where there is none. numbers: of the
    images added, by id.
    """

    ids: tuple[str, ...] = ()
    duplicates: int = 0
    deleted_earlier: int = 0
    updated: int = 0
    each: tuple[tuple[str, str | None], ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)


class Writer:
    """Made by `Collection.writer()`, which holds the lock."""

    def __init__(self, folder: Path, engine: Engine, who: str = "command line") -> None:
        self.folder = folder
        self.engine = engine
        self.who = who

    def known(self, sources: Sequence[str]) -> dict[str, str]:
        """Stamps of those sources that images were indexed from."""
        with self.engine.connect() as connection:
            query = select(images.c.source, images.c.source_stamp).where(images.c.source.in_(sources))
            return dict(connection.execute(query).all())

    def add(
        self,
        entries: Sequence[Entry],
        *,
        duplicates: bool = False,
        restore: bool = False,
        also: Callable[[Connection, Added], None] | None = None,
    ) -> Added:
        """Add images with their raw vectors, (d,) float32 each; all frames of a source in one call.

        A source that is known with another stamp has changed: what it no longer shows is deleted, and what is said
        of the pictures it still shows is taken over. Pictures that are there already are counted and left out
        unless `duplicates`, those deleted earlier unless `restore`. An image whose own file is gone takes the
        place of a copy of it as its source. also: done in the same transaction, once all is in.
        """
        if not entries:
            return Added()
        with self.engine.begin() as connection:
            updated = self._renew(connection, [record for record, _ in entries])
            present = self._present(connection, [record.content_hash for record, _ in entries])
            banned = set() if restore else self._forgotten(connection, entries)
            wanted: list[Entry] = []
            each: list[tuple[str, str | None]] = []
            for record, vector in entries:
                taken = present.setdefault(record.content_hash, set())
                if (record.source, record.content_hash) in updated:
                    each.append(("updated", min(taken)))
                    continue
                if record.content_hash in banned:
                    each.append(("deleted earlier", min(taken, default=None)))
                    continue
                if taken and not duplicates:
                    each.append(("duplicate", min(taken)))
                    self._move(connection, record)
                    continue
                image_id, copies = record.content_hash, 1
                while image_id in taken:
                    copies += 1
                    image_id = f"{record.content_hash}-{copies}"
                taken.add(image_id)
                wanted.append((replace(record, image_id=image_id), vector))
                each.append(("added", image_id))
            numbers = insert_entries(connection, wanted)
            if restore:
                delete_rows(
                    connection, forgotten.c.content_hash, [record.content_hash for record, _ in wanted]
                )
            if wanted:
                given = list(numbers.values())
                history.note(connection, self.who, "added", len(wanted), numbers=(given[0], given[-1]))
            outcomes = [outcome for outcome, _ in each]
            added = Added(
                tuple(numbers),
                outcomes.count("duplicate"),
                outcomes.count("deleted earlier"),
                outcomes.count("updated"),
                tuple(each),
                numbers,
            )
            if also:
                also(connection, added)
            if wanted or also:
                facts.count_up(connection)
        return added

    def _renew(self, connection: Connection, records: Sequence[Record]) -> set[tuple[str, str]]:
        """Bring the images of sources that changed up to date; the (source, content hash) of those still shown."""
        by_picture = {(record.source, record.content_hash): record for record in records}
        stamps = {record.source: record.source_stamp for record in records}
        wanted = (
            images.c.number,
            images.c.image_id,
            images.c.source,
            images.c.source_stamp,
            images.c.content_hash,
        )
        stale = [
            row
            for row in matching(connection, wanted, images.c.source, stamps)
            if row.source_stamp != stamps[row.source]
        ]
        gone = [row for row in stale if (row.source, row.content_hash) not in by_picture]
        if stale:
            facts.count_up(connection)
        if gone:
            self._delete_in_copy([row.image_id for row in gone])
            delete_images(connection, [row.number for row in gone])
            history.note(connection, self.who, "deleted", len(gone), [row.image_id for row in gone])
        updated = set()
        for row in stale:
            record = by_picture.get((row.source, row.content_hash))
            if record is not None:
                updated.add((row.source, row.content_hash))
                values = {name: value for name, value in record.__dict__.items() if name not in UNCHANGED}
                connection.execute(update(images).where(images.c.number == row.number).values(**values))
                self._relabel(connection, [row.number], dict(record.labels))
        return updated

    def _move(self, connection: Connection, record: Record) -> None:
        """Make `record`'s file the source of the image that shows the same picture, where its own is gone."""
        same = select(images.c.number, images.c.source).where(images.c.content_hash == record.content_hash)
        for row in connection.execute(same).all():
            if not row.source.startswith(originals.UPLOAD) and not Path(row.source).exists():
                place = {"source": record.source, "source_stamp": record.source_stamp, "frame": record.frame}
                connection.execute(update(images).where(images.c.number == row.number).values(**place))
                self._relabel(connection, [row.number], dict(record.labels))
                return

    def _present(self, connection: Connection, hashes: Sequence[str]) -> dict[str, set[str]]:
        """Ids of the images that already show these pictures, by content hash."""
        found: dict[str, set[str]] = {}
        wanted = images.c.content_hash, images.c.image_id
        for content_hash, image_id in matching(connection, wanted, images.c.content_hash, set(hashes)):
            found.setdefault(content_hash, set()).add(image_id)
        return found

    def _forgotten(self, connection: Connection, entries: Sequence[Entry]) -> set[str]:
        column = forgotten.c.content_hash
        hashes = [record.content_hash for record, _ in entries]
        return {row[0] for row in matching(connection, [column], column, hashes)}

    def relabel(self, source: str, changed: dict[str, str], patient_key: str | None = None) -> bool:
        """Set labels, and the patient where given, of all images of a source; whether anything changed."""
        with self.engine.begin() as connection:
            numbers = connection.scalars(select(images.c.number).where(images.c.source == source)).all()
            moved = False
            if patient_key:
                other = (images.c.source == source) & images.c.patient_key.is_distinct_from(patient_key)
                done = connection.execute(update(images).where(other).values(patient_key=patient_key))
                moved = done.rowcount > 0
            return self._relabel(connection, numbers, dict(changed)) or moved

    def set_labels(self, image_id: str, changed: dict[str, str | None]) -> bool:
        """Set labels of one image, and take away those that are None; whether anything changed."""
        with self.engine.begin() as connection:
            numbers = connection.scalars(select(images.c.number).where(images.c.image_id == image_id)).all()
            return self._relabel(connection, numbers, changed)

    def label_images(self, key: str, values: Mapping[str, str]) -> int:
        """Set one label of many images, by their ids; how many changed. Images that are gone are passed over."""
        with self.engine.begin() as connection:
            wanted = images.c.image_id, images.c.number
            numbers = {row[0]: row[1] for row in matching(connection, wanted, images.c.image_id, values)}
            query = select(labels.c.number, labels.c.value).where(labels.c.key == key)
            held = dict(connection.execute(query).all())
            new = {image_id: n for image_id, n in numbers.items() if held.get(n) != values[image_id]}
            for part in parts(list(new.values())):
                connection.execute(delete(labels).where(labels.c.key == key, labels.c.number.in_(part)))
            if new:
                rows = [(key, values[image_id], number) for image_id, number in new.items()]
                connection.exec_driver_sql("INSERT INTO labels (key, value, number) VALUES (?, ?, ?)", rows)
                history.note(connection, self.who, "labelled", len(new), list(new))
                facts.count_up(connection)
        return len(new)

    def _relabel(
        self, connection: Connection, numbers: Sequence[int], changed: Mapping[str, str | None]
    ) -> bool:
        before = select(labels.c.number, labels.c.key, labels.c.value).where(labels.c.number.in_(numbers))
        held = {(number, key): value for number, key, value in connection.execute(before)}
        new = [
            {"number": number, "key": key, "value": value}
            for number in numbers
            for key, value in changed.items()
            if held.get((number, key)) != value
        ]
        if not new:
            return False
        for row in new:
            connection.execute(
                delete(labels).where(labels.c.number == row["number"], labels.c.key == row["key"])
            )
        kept = [row for row in new if row["value"] is not None]
        if kept:
            connection.execute(insert(labels), kept)
        ids = ids_of(connection, [row["number"] for row in new])
        history.note(connection, self.who, "labelled", len(ids), ids)
        facts.count_up(connection)
        return True

    def delete(self, image_ids: Sequence[str]) -> list[str]:
        """Delete images and remember that somebody did; the ids that were there."""
        self._delete_in_copy(image_ids)  # first: what is gone here shall not come back with the copy
        with self.engine.begin() as connection:
            found: list[Any] = []
            for part in parts(image_ids):
                wanted = (
                    images.c.number,
                    images.c.image_id,
                    images.c.content_hash,
                    images.c.source,
                    images.c.patient_key,
                )
                found += connection.execute(select(*wanted).where(images.c.image_id.in_(part))).all()
            gone = [row.image_id for row in found]
            if found:
                remembered = [
                    {"content_hash": row.content_hash, "patient_key": row.patient_key} for row in found
                ]
                connection.execute(insert_or(forgotten).on_conflict_do_nothing(), remembered)
                delete_images(connection, [row.number for row in found])
                history.note(connection, self.who, "deleted", len(gone), gone)
                facts.count_up(connection)
        self._erase_originals({row.source for row in found})
        return gone

    def _delete_in_copy(self, image_ids: Sequence[str]) -> None:
        """Delete images from the last good copy too; one that cannot follow is dropped."""
        copy = self.folder / last_good.NAME
        if not image_ids or not (copy / schema.DATABASE).is_file():
            return
        engine = schema.connect(copy)
        try:
            Writer(copy, engine, self.who).delete(image_ids)
        except DatabaseError:
            last_good.drop(self.folder)
        finally:
            engine.dispose()

    def images_of(self, patient_key: str) -> list[str]:
        """The ids of a patient's images, in the order they came."""
        query = select(images.c.image_id).where(images.c.patient_key == patient_key).order_by(images.c.number)
        with self.engine.connect() as connection:
            return list(connection.scalars(query))

    def erase_patient(self, keys: Sequence[str]) -> int:
        """Remove every trace of the patients with these keys, from all files; the number of images erased.

        The statistics are learnt anew: from old ones and all other vectors the erased could be computed. What was
        learnt from grades and from comparisons is dropped for the same reason. Raises CollectionBusy where a reader
        still holds on to old pages of the database; then call again.
        """
        last_good.drop(self.folder)
        with self.engine.begin() as connection:
            query = select(images.c.number, images.c.image_id, images.c.source)
            found = connection.execute(query.where(images.c.patient_key.in_(keys))).all()
            deleted = connection.scalars(
                select(forgotten.c.content_hash).where(forgotten.c.patient_key.in_(keys))
            ).all()
            delete_images(connection, [row.number for row in found])
            history.forget(connection, [row.image_id for row in found])
            history.forget_pictures(connection, deleted)
            connection.execute(delete(forgotten).where(forgotten.c.patient_key.in_(keys)))
            replies.forget(connection)
            if found:
                learnt.drop(self.folder)
                gradings.forget(connection)
                history.note(connection, self.who, "erased", len(found))
            facts.count_up(connection)
        # Also when nothing was found: an earlier try may have been cut short.
        if not self.compact(refit=True):
            raise CollectionBusy(
                "the patient is erased, but a reader still holds old pages of the database; run the same command "
                "again when it has ended"
            )
        return len(found)

    def _erase_originals(self, sources: Collection[str]) -> None:
        """Remove the originals of those sources that no image stands on any more."""
        sent = [source for source in sources if source.startswith(originals.UPLOAD)]
        with self.engine.connect() as connection:
            used = set(connection.scalars(select(images.c.source).where(images.c.source.in_(sent))))
        originals.erase(self.folder, set(sent) - used)

    def set_profile(self, profile: Profile) -> None:
        """Store a profile with other re-ranking settings."""
        with self.engine.begin() as connection:
            facts.store(connection, "profile", profile.model_dump_json())
            history.note(connection, self.who, "profile", 0)
            facts.count_up(connection)

    def set_grading(self, column: str, text: str) -> None:
        """Keep what was learnt from the grades in the label `column`."""
        with self.engine.begin() as connection:
            gradings.store(connection, column, text)

    def finish(self) -> None:
        """End an indexing run: a new snapshot where there is none or too much has changed since."""
        if derived.is_stale(self.folder, self.engine):
            self.snapshot()

    def compact(self, refit: bool = False) -> bool:
        """Write a snapshot without deleted images, and give unused space back; `refit` learns new statistics.

        Whether all is written back: False where a reader still holds on to old pages of the database.
        """
        self.snapshot(refit)
        with self.engine.connect() as connection:
            sent = images.c.source.startswith(originals.UPLOAD)
            needed = set(connection.scalars(select(images.c.source).where(sent)))
        originals.sweep(self.folder, needed)
        with closing(self.engine.raw_connection()) as connection:  # neither may run inside a transaction
            connection.cursor().execute("VACUUM")
            (busy, *_) = connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def snapshot(self, refit: bool = False) -> None:
        """Write the derived index anew from the database and switch to it."""
        derived.renew(self.folder, self.engine, refit)
