"""State of the service that outlives a restart: a database, and a module of tables and queries per feature."""
