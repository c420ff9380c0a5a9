"""Writing side of a collection: every call is one transaction, on the disk when it returns."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection, select

from cbir.store.base import metadata
from cbir.store.base.profile import Profile, VectorFormat, vector_format
from cbir.store.base.reserved_labels import SLICE_PLACE, STUDY_DAY
from cbir.store.base.schema import images
from cbir.store.postgresql.postgresql_database import Database
from cbir.store.records import dicom_instances, label_changes, originals, quarantine
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.records.image_rows import (
    delete_images,
    deleted_content,
    ids_by_content,
    insert_entries,
    restore_content,
    rows_matching,
    update_images,
)
from cbir.store.records.label_changes import change_labels
from cbir.store.records.records import FINDINGS_LABEL, Entry, Record, stored_labels
from cbir.store.writing.image_remover import ImageRemover
from cbir.system.files import may_exist

# What stays when a changed source still shows the image; reserved labels are set with the labels
UNCHANGED = ("image_id", "content_hash", "labels", STUDY_DAY, SLICE_PLACE)
FILTERED = ("study", "series", "instance", "patient_key")  # what searches filter by besides labels


class Writer(ImageRemover):
    """Writes to a collection whose lock `Collection.writer()` holds.

    source_exists: says whether the file that images come from is still there; by default objects in a store are.
    held_pictures: thumbnails by content hash, if `add` quarantines new images with the label `intake`; else None.
    """

    def __init__(self, folder: Path, engine: Database, who: str = "command line") -> None:
        super().__init__(folder, engine, who)
        self.source_exists: Callable[[str], bool] = _source_exists
        self.held_pictures: Mapping[str, bytes] | None = None

    @cached_property
    def _format(self) -> VectorFormat:
        with self._engine.connect() as connection:
            return vector_format(metadata.read_profile(connection, self.folder))

    def source_stamps(self, sources: Sequence[str]) -> dict[str, str]:
        """Return the stamps of those sources that images were indexed from."""
        with self._engine.connect() as connection:
            query = select(images.c.source, images.c.source_stamp).where(images.c.source.in_(sources))
            return dict(connection.execute(query).all())

    def quarantined_records(self, sources: Sequence[str]) -> dict[str, list[Record]]:
        """Return the records of the quarantined images of those sources that have some."""
        with self._engine.connect() as connection:
            return quarantine.quarantined_records(connection, sources)

    def add(
        self,
        entries: Sequence[Entry],
        *,
        duplicates: bool = False,
        restore: bool = False,
        release: bool = False,
        replaces: Sequence[str] = (),
        in_transaction: Callable[[AddTransaction, Added], None] | None = None,
    ) -> Added:
        """Add images with their vectors; those in quarantine stay there.

        A source indexed before with another stamp has changed: images that it no longer shows are deleted, the
        others get its new record. An image whose own file is missing takes the file of a duplicate as its source.

        Parameters
        ----------
        entries : sequence of (Record, (d,) float32)
            Records and raw vectors; all frames of a source in one call.
        duplicates : bool
            Add images whose content the collection has already; they are counted and left out otherwise.
        restore : bool
            Add images that were deleted earlier; they are counted and left out otherwise.
        release : bool
            Take the images out of quarantine.
        replaces : sequence of str
            Ids of images that are deleted first, in the same transaction, and may be added again.
        in_transaction : callable, optional
            Called before the commit, for further writes that depend on the result.

        Returns
        -------
        Added
            Outcome of every entry.
        """
        if not entries and not replaces:
            return Added()
        self.delete_in_copy(replaces)
        with self._engine.begin() as connection:
            sources = self._remove_replaced(connection, replaces)
            if release:
                quarantine.take_out(connection, [record.content_hash for record, _ in entries])
            updated = self._update_sources(connection, [record for record, _ in entries])
            outcomes, new = self._sort_entries(connection, entries, updated, duplicates, restore)
            outcomes, new = self._keep_out(connection, outcomes, new)
            numbers = insert_entries(connection, new, self._format)
            copies = [
                (record, image_id)
                for (record, _), (kind, image_id) in zip(entries, outcomes, strict=True)
                if kind == "duplicate" and image_id
            ]
            dicom_instances.store_copies(connection, copies)
            if restore:
                restore_content(connection, [record.content_hash for record, _ in new], self.folder)
            if new:
                ends = min(numbers.values()), max(numbers.values())
                label_changes.record_change(connection, self.who, "added", len(new), numbers=ends)
            kinds = Counter(kind for kind, _ in outcomes)
            added = Added(
                tuple(numbers), kinds["duplicate"], kinds["deleted earlier"], kinds["updated"], tuple(outcomes),
                numbers, kinds["quarantined"], _of_other_patients(connection, entries, outcomes),
            )  # fmt: skip
            if in_transaction:
                in_transaction(AddTransaction(connection), added)
            if new or in_transaction or replaces:
                metadata.bump_generation(connection)
            unused = originals.forget_sources(connection, sources) if sources else set[str]()
        originals.erase_unused(self._engine, self.folder, unused)
        return added

    def _remove_replaced(self, connection: Connection, image_ids: Sequence[str]) -> set[str]:
        """Delete images whose content may come again; return their sources."""
        if not image_ids:
            return set()
        c = images.c
        rows = rows_matching(connection, (c.number, c.image_id, c.source), c.image_id, image_ids)
        if rows:
            ids = [row.image_id for row in rows]
            delete_images(connection, [row.number for row in rows])
            label_changes.record_change(connection, self.who, "deleted", len(ids), ids)
        return {row.source for row in rows}

    def _keep_out(
        self, connection: Connection, outcomes: list[tuple[str, str | None]], new: list[Entry]
    ) -> tuple[list[tuple[str, str | None]], list[Entry]]:
        """Quarantine new entries that the intake check has labelled; return the others that are not in quarantine.

        The same picture again, such as another blank frame, is quarantined with the first.
        """
        if not new:
            return outcomes, new
        contents = {record.image_id: record.content_hash for record, _ in new}
        held = quarantine.held_contents(connection, contents.values())
        if self.held_pictures is not None:
            labelled = [entry for entry in new if FINDINGS_LABEL in entry[0].labels]
            quarantine.hold(connection, labelled, self.held_pictures, self.who)
            held |= {record.content_hash for record, _ in labelled}
        outcomes = [
            ("quarantined", contents[image_id])
            if image_id in contents and contents[image_id] in held
            else (kind, image_id)
            for kind, image_id in outcomes
        ]
        return outcomes, [entry for entry in new if entry[0].content_hash not in held]

    def _sort_entries(
        self,
        connection: Connection,
        entries: Sequence[Entry],
        updated: set[tuple[str, str]],
        duplicates: bool,
        restore: bool,
    ) -> tuple[list[tuple[str, str | None]], list[Entry]]:
        """Return the outcome of every entry, and the entries to add with their image ids."""
        hashes = [record.content_hash for record, _ in entries]
        used = ids_by_content(connection, hashes)
        deleted_earlier = set() if restore else deleted_content(connection, hashes, self.folder)
        new: list[Entry] = []
        outcomes: list[tuple[str, str | None]] = []
        for record, vector in entries:
            used_ids = used.setdefault(record.content_hash, set())
            if (record.source, record.content_hash) in updated:
                outcomes.append(("updated", min(used_ids)))
                continue
            if record.content_hash in deleted_earlier:
                outcomes.append(("deleted earlier", min(used_ids, default=None)))
                continue
            if used_ids and not duplicates:
                outcomes.append(("duplicate", min(used_ids)))
                self._adopt_source(connection, record)
                continue
            image_id, copies = record.content_hash, 1
            while image_id in used_ids:
                copies += 1
                image_id = f"{record.content_hash}-{copies}"
            used_ids.add(image_id)
            new.append((replace(record, image_id=image_id), vector))
            outcomes.append(("added", image_id))
        return outcomes, new

    def _update_sources(self, connection: Connection, records: Sequence[Record]) -> set[tuple[str, str]]:
        """Update the images of changed sources; return (source, content hash) of those still shown."""
        by_content = {(record.source, record.content_hash): record for record in records}
        stamps = {record.source: record.source_stamp for record in records}
        c = images.c
        columns = (
            c.number,
            c.image_id,
            c.source,
            c.source_stamp,
            c.content_hash,
            *(c[name] for name in FILTERED),
        )
        stale = [
            row
            for row in rows_matching(connection, columns, c.source, stamps)
            if row.source_stamp != stamps[row.source]
        ]
        removed = [row for row in stale if (row.source, row.content_hash) not in by_content]
        if stale:
            metadata.bump_generation(connection)
        if removed:
            ids = [row.image_id for row in removed]
            self.delete_in_copy(ids)
            delete_images(connection, [row.number for row in removed])
            label_changes.record_change(connection, self.who, "deleted", len(ids), ids)
        updated = set()
        for row in stale:
            if record := by_content.get((row.source, row.content_hash)):
                updated.add((row.source, row.content_hash))
                values = {name: value for name, value in record.__dict__.items() if name not in UNCHANGED}
                update_images(connection, [row.number], values)
                if any(getattr(row, name) != values[name] for name in FILTERED):
                    label_changes.record_change(connection, self.who, "labelled", 1, [row.image_id])
                change_labels(
                    connection,
                    [row.number],
                    {STUDY_DAY: None, SLICE_PLACE: None, **stored_labels(record)},
                    self.who,
                )
        return updated

    def _adopt_source(self, connection: Connection, record: Record) -> None:
        """Make the file of `record` the source of an image with the same content whose own file is missing."""
        columns = images.c.number, images.c.source, images.c.patient_key, images.c.instance
        same = select(*columns).where(images.c.content_hash == record.content_hash)
        for row in connection.execute(same).all():
            if not row.source.startswith(originals.UPLOAD) and not self.source_exists(row.source):
                source = {"source": record.source, "source_stamp": record.source_stamp, "frame": record.frame}
                update_images(connection, [row.number], source)
                same_patient = row.patient_key == record.patient_key  # days count for one patient alone
                adopted = dict[str, str | None](stored_labels(record) if same_patient else record.labels)
                if row.instance != record.instance:
                    adopted.pop(SLICE_PLACE, None)
                change_labels(connection, [row.number], adopted, self.who)
                return

    def set_profile(self, profile: Profile) -> None:
        """Store a profile with other re-ranking settings."""
        with self._engine.begin() as connection:
            metadata.set_value(connection, "profile", profile.model_dump_json())
            label_changes.record_change(connection, self.who, "profile", 0)
            metadata.bump_generation(connection)

    def set_grade_model(self, label: str, text: str) -> None:
        """Store the serialised model that was fitted to the grades in a label."""
        with self._engine.begin() as connection:
            metadata.set_grade_model(connection, label, text)
            metadata.bump_generation(connection)

    def set_auto(self, text: str) -> None:
        """Store the serialised choice of the re-ranker that `auto` stands for."""
        with self._engine.begin() as connection:
            metadata.set_value(connection, metadata.AUTO, text)
            metadata.bump_generation(connection)


def _of_other_patients(
    connection: Connection, entries: Sequence[Entry], outcomes: Sequence[tuple[str, str | None]]
) -> frozenset[int]:
    """Return the positions of the duplicates with a patient whose image is not of that patient."""
    duplicates = {
        position: image_id
        for position, (kind, image_id) in enumerate(outcomes)
        if kind == "duplicate" and image_id and entries[position][0].patient_key
    }
    if not duplicates:
        return frozenset()
    c = images.c
    rows = rows_matching(connection, (c.image_id, c.patient_key), c.image_id, set(duplicates.values()))
    patients = {row.image_id: row.patient_key for row in rows}
    return frozenset(
        position
        for position, image_id in duplicates.items()
        if patients.get(image_id) != entries[position][0].patient_key
    )


def _source_exists(source: str) -> bool:
    return "://" in source or may_exist(Path(source))
