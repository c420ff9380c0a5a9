"""Tables of a collection in PostgreSQL: those of SQLite, without what PostgreSQL does itself."""

from sqlalchemy import Column, Index, MetaData, Table, Text, Uuid, func

from cbir.store.base import schema
from cbir.store.base.statements import WHOLE_NUMBER, value_beginning

# PostgreSQL has a log of changes, and checksums of pages, of its own.
LEFT_OUT = (schema.change_log, schema.row_totals)
HEAD = "0001"  # revision of these tables, in the folder `migrations`

tables = MetaData()


def _add_tables() -> None:
    for table in schema.tables.sorted_tables:
        if table in LEFT_OUT:
            continue
        copy = table.to_metadata(tables)
        for column in copy.c:
            if isinstance(column.type, Text):
                column.type = Text(collation="C")  # the order of the characters, as in SQLite
    by_name = {str(index.name): index for index in tables.tables["images"].indexes}
    by_name["ix_images_source"].dialect_options["postgresql"]["using"] = "hash"  # paths may be long
    labels = tables.tables["labels"]
    labels.indexes.clear()
    Index("ix_labels_beginning", labels.c.key, value_beginning(labels.c.value), labels.c.number)
    Index("ix_labels_number", labels.c.number, labels.c.key, unique=True)


_add_tables()
tombstones: Table = tables.tables["tombstones"]
# Of the change that deleted the image: an older snapshot still has its vector. Tombstones stay for ever.
tombstones.append_column(Column("generation", WHOLE_NUMBER, nullable=False, index=True))
# Random, so that the same number after a return to an earlier state is seen to be another change.
tables.tables["changes"].append_column(
    Column("token", Uuid(), nullable=False, server_default=func.gen_random_uuid())
)
