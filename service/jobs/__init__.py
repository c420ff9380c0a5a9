"""Images that come in over HTTP: uploaded files and indexing jobs."""
