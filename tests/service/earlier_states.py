"""State databases as versions before sums of rows made them."""

from sqlalchemy import Connection, text

from service.state.schema import MIGRATIONS


def forget_sums(connection: Connection) -> None:
    """Remove the sums of a SQLite file, and the triggers that keep them."""
    triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    for name in connection.execute(text(triggers)).scalars().all():
        connection.execute(text(f"DROP TRIGGER {name}"))
    connection.execute(text("DROP TABLE row_totals"))
    connection.execute(text(f"UPDATE schema_version SET version = {len(MIGRATIONS) - 1}"))
