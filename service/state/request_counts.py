"""Numbers of requests: by day, and of each caller over all services that share the state."""

import hashlib
import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Double,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql

from service.state.database import StateDatabase
from service.state.schema import DatabaseTime, WholeNumber, tables

counts = Table(
    "request_counts",
    tables,
    Column("day", Text, nullable=False),  # UTC, ISO 8601
    Column("action", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("count", WholeNumber, nullable=False),
    PrimaryKeyConstraint("day", "action", "method", "outcome"),
)
MINUTE, HOUR = 60_000, 3_600_000  # milliseconds
LOCK = 0x6362696E  # with a caller's hash; another one than that of all writers
FULL_AGAIN = 5 * MINUTE  # after which an allowance is full again, whatever was left of it
allowances = Table(
    "request_allowances",
    tables,
    Column("caller", Text, primary_key=True),
    Column("remaining", Double, nullable=False),  # requests; below 0 if several services answered at once
    Column("at", WholeNumber, nullable=False),  # milliseconds since 1970, by the clock of the database
)
patient_names = Table(
    "named_patients",
    tables,
    Column("caller", Text, nullable=False),
    Column("patient", Text, nullable=False),  # hash of the patient's key
    Column("at", WholeNumber, nullable=False, index=True),
    PrimaryKeyConstraint("caller", "patient"),
)


class CountKey(NamedTuple):
    """Key of a count of requests: day (ISO 8601), action, re-ranking method or "", and outcome."""

    day: str
    action: str
    method: str
    outcome: str


def add_counts(database: StateDatabase, added: Mapping[CountKey, int], first_day: str) -> None:
    """Add numbers of requests to those of the database.

    Parameters
    ----------
    database : StateDatabase
        Database to store them in.
    added : mapping of CountKey to int
        Numbers to add.
    first_day : str
        Day, ISO 8601; what was counted before it is deleted.
    """
    with database.writing() as connection:
        for key, count in added.items():
            row = and_(*[counts.c[name] == value for name, value in key._asdict().items()])
            more = update(counts).where(row).values(count=counts.c.count + count)
            if not connection.execute(more).rowcount:
                connection.execute(insert(counts).values(**key._asdict(), count=count))
        connection.execute(delete(counts).where(counts.c.day < first_day))


def load_counts(database: StateDatabase, first_day: str) -> dict[CountKey, int]:
    """Return the numbers of the days from `first_day`."""
    with database.reading() as connection:
        rows = connection.execute(select(counts).where(counts.c.day >= first_day))
        return {CountKey(*row[:4]): int(row[4]) for row in rows}


def spend_requests(database: StateDatabase, spent: Mapping[str, int], per_minute: int) -> dict[str, float]:
    """Take requests from the allowances of callers, and return what remains of each.

    An allowance is `per_minute` requests and is refilled in a minute. All is one statement, which waits for no
    other transaction but those with the same callers.

    Parameters
    ----------
    database : StateDatabase
    spent : mapping of str to int
        Requests since the last call, by caller; at least one caller.
    per_minute : int
        Requests that a caller may send.
    """
    now = DatabaseTime()
    # In order, so that services that have the same callers do not wait for each other in a circle.
    rows = [
        {"caller": caller, "remaining": float(per_minute - spent[caller]), "at": now}
        for caller in sorted(spent)
    ]
    added = postgresql.insert(allowances).values(rows)
    full = float(per_minute)
    refilled = allowances.c.remaining + (now - allowances.c.at) * (full / MINUTE)
    spent_requests = full - added.excluded.remaining
    changed = added.on_conflict_do_update(
        index_elements=[allowances.c.caller],
        set_={"remaining": func.least(full, refilled) - spent_requests, "at": now},
    ).returning(allowances.c.caller, allowances.c.remaining)
    with database.writing(in_turn=False) as connection:
        return {row.caller: float(row.remaining) for row in connection.execute(changed)}


def forget_full_allowances(database: StateDatabase) -> None:
    """Delete the allowances that have not been used for some minutes."""
    old = select(allowances.c.caller).where(allowances.c.at < DatabaseTime() - FULL_AGAIN)
    with database.writing(in_turn=False) as connection:
        connection.execute(
            delete(allowances).where(allowances.c.caller.in_(old.with_for_update(skip_locked=True)))
        )


def name_patients(database: StateDatabase, caller: str, keys: Collection[str], per_hour: int) -> int:
    """Count patients that a caller names; return 0, or the seconds to wait if they are too many.

    Patients that were named within the last hour are free. If they are too many, none is counted.

    Parameters
    ----------
    database : StateDatabase
    caller : str
    keys : collection of str
        Keys of the patients.
    per_hour : int
        Different patients that a caller may name per hour.
    """
    patients = {_hash(key) for key in keys}
    with database.writing(in_turn=False) as connection:
        turn = func.pg_advisory_xact_lock(LOCK, func.hashtext(caller))  # of requests of the same caller
        now: int = connection.execute(select(turn, DatabaseTime())).one()[1]
        _forget_names(connection, now - HOUR)
        rows = connection.execute(
            select(patient_names)
            .where(patient_names.c.caller == caller, patient_names.c.at > now - HOUR)
            .order_by(patient_names.c.at)
        ).all()
        new = patients - {row.patient for row in rows}
        excess = len(rows) + len(new) - per_hour
        if excess > 0:
            last = rows[min(excess, len(rows)) - 1].at if rows else now
            return max(1, math.ceil((last + HOUR - now) / 1000))
        if new:
            connection.execute(
                postgresql.insert(patient_names).on_conflict_do_update(
                    index_elements=[patient_names.c.caller, patient_names.c.patient], set_={"at": now}
                ),
                [{"caller": caller, "patient": patient, "at": now} for patient in new],
            )
    return 0


def _forget_names(connection: Connection, before: int) -> None:
    """Delete the names of all callers up to a time, but for those that another transaction deletes."""
    names = tuple_(patient_names.c.caller, patient_names.c.patient)
    old = select(patient_names.c.caller, patient_names.c.patient).where(patient_names.c.at <= before)
    connection.execute(delete(patient_names).where(names.in_(old.with_for_update(skip_locked=True))))


def _hash(key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
