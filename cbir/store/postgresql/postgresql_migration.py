"""Bring the tables of a collection in PostgreSQL to the present revision, with Alembic."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from cbir.errors import DatabaseUnavailable, InvalidInput
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase
from cbir.store.postgresql.postgresql_schema import HEAD
from cbir.system.remedies import install_command

FOLDER = Path(__file__).parent / "migrations"


def has_tables(connection: Connection, schema: str) -> bool:
    """Return whether `schema` has a collection. Raises DatabaseUnavailable if the user has no right to it."""
    names = ("images", "alembic_version")
    query = " AND ".join(f"to_regclass('{schema}.{name}') IS NOT NULL" for name in names)
    return connection.scalar(text(f"SELECT {query}")) or False


def create_tables(connection: Connection, schema: str) -> None:
    """Create tables in `schema`, which is created too unless it exists."""
    if connection.scalar(text(f"SELECT to_regnamespace('{schema}') IS NULL")):
        connection.execute(text(f'CREATE SCHEMA "{schema}"'))  # may be a word of SQL
    _upgrade(connection)


def run_migrations(database: PostgresqlDatabase) -> None:
    """Upgrade the tables in a transaction, if a version of cbir before this one made them.

    Raises InvalidInput if a newer version did, or if the user may not change the tables.
    """
    with database.connect_once() as connection:
        if _revision(connection) == HEAD:
            return
    try:
        with database.begin() as connection:
            if _revision(connection) != HEAD:  # unless another process was faster
                _upgrade(connection)
    except DatabaseUnavailable as error:
        if getattr(error.__cause__, "sqlstate", None) != "42501":
            raise
        raise InvalidInput(
            f"the tables of {database.name} are of an earlier version, and this user may not change them; open the "
            "collection once as their owner"
        ) from error


def _revision(connection: Connection) -> str | None:
    stored: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return stored


def _upgrade(connection: Connection) -> None:
    try:
        from alembic import command
        from alembic.util import CommandError
    except ImportError as error:
        raise InvalidInput(f"this needs alembic: {install_command('postgres')}") from error
    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:  # it knows no such revision
        raise InvalidInput("a newer version of cbir made this collection: upgrade this one") from error


def alembic_config(connection: Connection) -> Any:
    """Return Alembic's configuration for the tables that a connection sees."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
