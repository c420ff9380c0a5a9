"""Revisions of the tables in PostgreSQL, run by Alembic."""
