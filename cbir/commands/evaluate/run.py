"""`cbir evaluate run`."""


def run() -> None:
    """To be written."""
