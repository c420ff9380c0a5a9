"""State of a collection's database, which tells whether what was derived from it earlier still belongs to it.

PostgreSQL can be taken back to an earlier state, and changed again from there: generations and image numbers are then
given a second time. Each entry of the history has a random token there; that of the last one names the state.
Carrying images over may give an image a number below that of others, which what was derived earlier does not expect:
the state then gets another numbering.
"""

import secrets

from sqlalchemy import Connection

from cbir.errors import CollectionDamaged
from cbir.store.base import metadata
from cbir.store.base.restore_advice import REPAIR
from cbir.store.base.statements import is_postgresql

NONE = ""  # of SQLite, which a restore puts into a folder of its own
NUMBERING = "numbering"  # key in `meta`
_LAST = "(SELECT change || ' ' || token FROM changes ORDER BY change DESC LIMIT 1)"
_META = f"(SELECT value FROM meta WHERE key = '{NUMBERING}')"
_STATE = f"SELECT value, {{last}}, {_META} FROM meta WHERE key = '{metadata.UNCHECKED}'"
_STATE_SQLITE, _STATE_POSTGRESQL = _STATE.format(last="NULL"), _STATE.format(last=_LAST)


def read_state(connection: Connection) -> tuple[int, str]:
    """Return the generation, and the name of the state."""
    query = _STATE_POSTGRESQL if is_postgresql(connection) else _STATE_SQLITE
    row = connection.exec_driver_sql(query).first()
    if row is None:
        raise CollectionDamaged(f"the collection's database does not contain its generation; {REPAIR}")
    generation, last, numbering = row
    return int(generation), (last or NONE) + (f"/{numbering}" if numbering else "")


def has_state(connection: Connection, state: str) -> bool:
    """Return whether the database is in this state or in a later one, with the same numbering."""
    last, _, numbering = state.partition("/")
    if (connection.exec_driver_sql(f"SELECT {_META}").scalar() or "") != numbering:
        return False
    if not is_postgresql(connection):
        return True
    if last == NONE:  # before the first change
        return connection.exec_driver_sql("SELECT NOT EXISTS (SELECT 1 FROM changes)").scalar() is True
    number, _, token = last.partition(" ")
    query = "SELECT CAST(token AS TEXT) FROM changes WHERE change = %s"
    return bool(connection.exec_driver_sql(query, (int(number),)).scalar() == token)


def note_renumbering(connection: Connection) -> None:
    """Note that images get numbers below others: all snapshots and vector indexes are to be made again."""
    metadata.set_value(connection, NUMBERING, secrets.token_hex(8))
