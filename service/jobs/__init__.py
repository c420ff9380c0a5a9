"""Long tasks that the service runs: indexing, audits, maps."""
