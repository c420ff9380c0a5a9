"""Alembic runs this: revisions within the transaction of the connection that `postgresql_migration` passes."""

from alembic import context

from cbir.store import postgresql_schema

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=postgresql_schema.tables)
context.run_migrations()
