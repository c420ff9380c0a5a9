"""Tables of a collection in PostgreSQL: those of SQLite, without what PostgreSQL does itself."""

from sqlalchemy import Column, MetaData, Table, Text, Uuid, func

from cbir.store import schema
from cbir.store.statements import WHOLE_NUMBER

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


_add_tables()
tombstones: Table = tables.tables["tombstones"]
# Of the change that deleted the image: an older snapshot still has its vector. Tombstones stay for ever.
tombstones.append_column(Column("generation", WHOLE_NUMBER, nullable=False, index=True))
# Random, so that the same number after a return to an earlier state is seen to be another change.
tables.tables["changes"].append_column(
    Column("token", Uuid(), nullable=False, server_default=func.gen_random_uuid())
)
