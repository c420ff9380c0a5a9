"""`cbir evaluate irma-error`."""


def irma_error() -> None:
    """To be written."""
