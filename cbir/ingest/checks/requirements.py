"""Packages and files that the intake check needs."""

from importlib.util import find_spec

from cbir.errors import InvalidInput
from cbir.system.extras import install_command


def require_packages(intake: str) -> None:
    """Raise InvalidInput with the remedy if images are to be checked, and a package or its weights are missing.

    intake: the setting.
    """
    if intake != "accept":
        from cbir.ingest.checks.text_reader import reader_path  # not imported where nothing is checked

        reader_path()
        if find_spec("simplejpeg") is None:
            raise InvalidInput(f"the intake check needs simplejpeg: {install_command('intake')}")
