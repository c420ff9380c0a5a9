"""Record of the editions of an index that several machines share, in the collection's PostgreSQL database."""

from contextlib import AbstractContextManager

from pydantic import ValidationError

from cbir.store.index.editions import EditionRecord
from cbir.store.snapshot.index_record import IndexRecord


class SharedEditions:
    """Editions of one kind of index of a collection in PostgreSQL."""

    def __init__(self, record: IndexRecord) -> None:
        self._record = record

    def version(self) -> object:
        """Return what changes when the record does."""
        return self._record.read_short()

    def read(self) -> EditionRecord:
        """Return the record; an empty one if there is none."""
        stored = self._record.read()
        if stored is None:
            return EditionRecord()
        try:
            return EditionRecord.model_validate_json(stored[0]).model_copy(update={"statistics": stored[1]})
        except ValidationError:  # of another version of the program: the index is made again
            return EditionRecord()

    def write(self, record: EditionRecord) -> None:
        """Replace the record, durably and in one step."""
        self._record.write(record.model_dump_json(exclude={"statistics"}), record.statistics)

    def lock(self) -> AbstractContextManager[bool]:
        """Hold the lock on all machines; yields False if another process holds it."""
        return self._record.lock()
