"""Suppression of decoders' warnings and logs, which may quote patient data."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

_lock = Lock()
_users = 0
_filters = ExitStack()


def _drop(record: logging.LogRecord) -> bool:
    return False


@contextmanager
def suppress_decoder_logs() -> Iterator[None]:
    """Suppress warnings and pydicom's log records while at least one thread is inside.

    Users are counted: threads that leave warnings.catch_warnings in another order than they entered would leave its
    filters behind.
    """
    global _users
    with _lock:
        if _users == 0:
            _filters.enter_context(warnings.catch_warnings(action="ignore"))
            logging.getLogger("pydicom").addFilter(_drop)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                logging.getLogger("pydicom").removeFilter(_drop)
                _filters.close()
