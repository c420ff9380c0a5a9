"""Failed attempts to log in, counted over all services that share the state database."""

from sqlalchemy import Column, Table, Text, delete, func, insert, select, update

from service.state.database import StateDatabase
from service.state.schema import WholeNumber, tables, unix_time

attempts = Table(
    "failed_attempts",
    tables,
    Column("network", Text, primary_key=True),
    Column("count", WholeNumber, nullable=False),
    Column("ends", WholeNumber, nullable=False, index=True),
)


def add_failure(database: StateDatabase, network: str, seconds: int, limit: int) -> int:
    """Count a failure, and return the number of those in its series.

    Parameters
    ----------
    database : StateDatabase
    network : str
        Address, or network, of the client.
    seconds : int
        Time after the last failure in which the next one counts as one of the same series.
    limit : int
        Number of networks to keep, at least 1; those that end first are dropped.
    """
    same, now = attempts.c.network == network, unix_time()
    with database.writing() as connection:
        connection.execute(delete(attempts).where(attempts.c.ends <= now))
        more = update(attempts).where(same).values(count=attempts.c.count + 1, ends=now + seconds)
        if not connection.execute(more).rowcount:
            excess = connection.execute(select(func.count()).select_from(attempts)).scalar_one() - limit + 1
            if excess > 0:
                first = select(attempts.c.network).order_by(attempts.c.ends, attempts.c.network).limit(excess)
                connection.execute(delete(attempts).where(attempts.c.network.in_(first)))
            connection.execute(insert(attempts).values(network=network, count=1, ends=now + seconds))
        return int(connection.execute(select(attempts.c.count).where(same)).scalar_one())
