"""Audit log of services that share their state: its lines, and the last one, which each new line continues."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Column, Connection, Table, Text, delete, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from service.state.schema import StateUnavailable, WholeNumber, tables

BATCH = 1000  # lines read at once
LogConnection = Connection  # in a transaction on the log

lines = Table(
    "audit_lines",
    tables,
    Column("number", WholeNumber, primary_key=True, autoincrement=False),
    Column("time", WholeNumber, nullable=False, index=True),  # seconds since 1970
    Column("line", Text, nullable=False),  # JSON, as in a file, without the newline
)
chain = Table(  # one row
    "audit_chain",
    tables,
    Column("id", WholeNumber, primary_key=True, autoincrement=False),
    Column("number", WholeNumber, nullable=False),  # of the last line
    Column("mac", Text, nullable=False),  # of the last line
    Column("key_check", Text, nullable=False),
    Column("removed", WholeNumber, nullable=False),  # last line that was removed for its age, 0 for none
    Column("removed_mac", Text, nullable=False),  # authenticates that number
)
# SQLAlchemy would compile an insertion of several rows at every call.
ADD_LINES = text(
    f"WITH saved AS (UPDATE {chain.name} SET number = :number, mac = :mac, key_check = :key_check, "
    "removed = :removed, removed_mac = :removed_mac) "
    f"INSERT INTO {lines.name} (number, time, line) SELECT :first + place - 1, :time, line "
    "FROM unnest(CAST(:texts AS text[])) WITH ORDINALITY AS added (line, place)"
)


class StoredChain(NamedTuple):
    """Number and mac of the last line, a check of the key, and the last line that was removed for its age."""

    number: int
    mac: str
    key_check: str
    removed: int
    removed_mac: str


def read_chain(connection: Connection, *, lock: bool = False) -> StoredChain | None:
    """Return the state of the chain, None without one. lock: none but this transaction changes it until its end."""
    query = select(*[chain.c[name] for name in StoredChain._fields])
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return StoredChain(*row) if row else None


def begin_chain(connection: Connection, first: StoredChain) -> None:
    """Store the state of a new chain; raises StateUnavailable if another service has just begun one."""
    try:
        connection.execute(insert(chain).values(id=1, **first._asdict()))
    except IntegrityError as error:
        raise StateUnavailable("another service has begun the audit log at the same time") from error


def save_chain(connection: Connection, state: StoredChain) -> None:
    """Replace the state of the chain."""
    connection.execute(update(chain).values(**state._asdict()))


def add_lines(connection: Connection, texts: list[str], time: int, state: StoredChain) -> None:
    """Add lines at the end of the chain and replace its state, in one statement.

    Raises StateUnavailable if a line with such a number exists, which no service has written.

    Parameters
    ----------
    connection : Connection
        In a transaction that has locked the chain.
    texts : list of str
        At least one.
    time : int
        Seconds since 1970.
    state : StoredChain
        State of the chain after them.
    """
    first = state.number - len(texts) + 1
    values = {"first": first, "texts": texts, "time": time} | state._asdict()
    try:
        connection.execute(ADD_LINES, values)
    except IntegrityError as error:
        raise StateUnavailable(
            f"the table {lines.name} has a line {first} or later, which no service has written; "
            "`cbir admin audit-log verify` says more"
        ) from error


def last_line(connection: Connection) -> str | None:
    """Return the line with the highest number; None without lines."""
    return connection.execute(select(lines.c.line).order_by(lines.c.number.desc()).limit(1)).scalar()


def read_audit_lines(connection: Connection, since: int = 0) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines since a time, in order."""
    query = select(lines.c.number, lines.c.line).where(lines.c.time >= since).order_by(lines.c.number)
    streamed = connection.execution_options(stream_results=True, yield_per=BATCH)
    for row in streamed.execute(query):
        yield row.number, row.line


def old_line(connection: Connection, before: int, limit: int) -> int | None:
    """Return the number of a line that is older than a time, as all lines before it are; None for no such line.

    Parameters
    ----------
    connection : Connection
    before : int
        Seconds since 1970.
    limit : int
        Number of lines up to it, at most. The last line of all is never returned.
    """
    first, last = (select(edge(lines.c.number)).scalar_subquery() for edge in (func.min, func.max))
    newer = select(func.min(lines.c.number)).where(lines.c.time >= before).scalar_subquery()
    query = select(func.max(lines.c.number))
    query = query.where(lines.c.number < first + limit, lines.c.number < func.coalesce(newer, last))
    return connection.execute(query).scalar()


def remove_lines(connection: Connection, last: int) -> int:
    """Remove the lines up to the number `last`; return how many."""
    return connection.execute(delete(lines).where(lines.c.number <= last)).rowcount
