"""Programs that use clients generated from docs/openapi.json."""
