"""Suppression of decoders' warnings and logs, which may quote patient data."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

LOGGERS = ("pydicom", "pylibjpeg", "openjpeg", "imagecodecs", "PIL")
SILENT = logging.CRITICAL + 1

_lock = Lock()
_users = 0
_suppressed = ExitStack()


@contextmanager
def suppress_decoder_logs() -> Iterator[None]:
    """Suppress warnings and the log records of decoders while at least one thread is inside.

    Users are counted: threads that leave warnings.catch_warnings in another order than they entered would leave its
    filters behind.
    """
    global _users
    with _lock:
        if _users == 0:
            _suppressed.enter_context(warnings.catch_warnings(action="ignore"))
            for name in LOGGERS:
                logger = logging.getLogger(name)
                _suppressed.callback(logger.setLevel, logger.level)
                logger.setLevel(SILENT)  # of the loggers below it too, which a filter would not be
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _suppressed.close()
