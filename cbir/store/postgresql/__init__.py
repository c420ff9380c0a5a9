"""Connections, functions and schemas of PostgreSQL."""
