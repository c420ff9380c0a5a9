"""State of a collection's database, which tells whether what was derived from it earlier still belongs to it.

PostgreSQL can be taken back to an earlier state, and changed again from there: generations and image numbers are then
given a second time. Each entry of the history has a random token there; that of the last one names the state.
"""

from sqlalchemy import Connection

from cbir.errors import CollectionDamaged
from cbir.store import metadata
from cbir.store.statements import is_postgresql

NONE = ""  # of SQLite, which a restore puts into a folder of its own
_LAST = "(SELECT change || ' ' || token FROM changes ORDER BY change DESC LIMIT 1)"
_GENERATION = f"SELECT value, {_LAST} FROM meta WHERE key = '{metadata.UNCHECKED}'"


def read_state(connection: Connection) -> tuple[int, str]:
    """Return the generation, and the name of the state."""
    if not is_postgresql(connection):
        return int(metadata.required_value(connection, metadata.UNCHECKED)), NONE
    row = connection.exec_driver_sql(_GENERATION).first()
    if row is None:
        raise CollectionDamaged("the collection's database does not contain its generation")
    return int(row[0]), row[1] or NONE


def has_state(connection: Connection, state: str) -> bool:
    """Return whether the database is in this state or in a later one."""
    if not is_postgresql(connection):
        return True
    if state == NONE:  # before the first change
        return connection.exec_driver_sql("SELECT NOT EXISTS (SELECT 1 FROM changes)").scalar() is True
    number, _, token = state.partition(" ")
    query = "SELECT CAST(token AS TEXT) FROM changes WHERE change = %s"
    return bool(connection.exec_driver_sql(query, (int(number),)).scalar() == token)
