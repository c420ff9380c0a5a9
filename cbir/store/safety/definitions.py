"""Compare the definitions of tables, indexes and triggers of a collection with those of its last good copy.

No checksum covers them, and a changed one may be valid SQL.
"""

from sqlalchemy import Connection

from cbir.store.base.schema import HISTORY
from cbir.store.safety.change_log import logging_triggers
from cbir.store.safety.quarantine_table import quarantine

Definition = tuple[str, str, str | None]  # type, table, SQL
QUERY = "SELECT name, type, tbl_name, sql FROM sqlite_master"


def differing_definitions(connection: Connection, copy: Connection) -> list[str]:
    """Return the names of definitions that are not those of the copy, in order.

    Only the collection may have what logs changes, what was added since the copy was made, and what a newer version
    of cbir adds.
    """
    ours, theirs = _read(connection), _read(copy)
    logging = logging_triggers()
    differing = {name for name, definition in theirs.items() if ours.get(name) != definition}
    for name in ours.keys() - theirs.keys():
        kind, table, sql = ours[name]
        if name in logging:
            differing |= set() if sql == logging[name] and kind == "trigger" else {name}
        elif table not in {quarantine.name, *(table.name for table in HISTORY)}:
            differing.add(name)
    return sorted(differing)


def _read(connection: Connection) -> dict[str, Definition]:
    rows = connection.exec_driver_sql(QUERY).all()
    return {name: (kind, table, sql) for name, kind, table, sql in rows}
