"""Files that are derived from the database."""
