"""`cbir evaluate irma-run`."""


def irma_run() -> None:
    """To be written."""
