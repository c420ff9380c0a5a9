"""State databases as version 1.0 made them."""

from sqlalchemy import Connection, text

from service.state.schema import FIRST_VERSION


def return_to_first_version(connection: Connection) -> None:
    """Remove what later versions have added: makers of tokens, and in a SQLite file sums with triggers."""
    if connection.dialect.name == "sqlite":
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for name in connection.execute(text(triggers)).scalars().all():
            connection.execute(text(f"DROP TRIGGER {name}"))
        connection.execute(text("DROP TABLE row_totals"))
    connection.execute(text("ALTER TABLE tokens DROP COLUMN made_by"))
    connection.execute(text(f"UPDATE schema_version SET version = {FIRST_VERSION}"))
