"""Alembic runs this: revisions within the transaction of the connection that the migration passes."""

from alembic import context
from sqlalchemy import text

from cbir.store.postgresql import postgresql_schema

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=postgresql_schema.tables,
    version_table_schema=connection.scalar(text("SELECT current_schema()")),  # others have that table too
)
context.run_migrations()
