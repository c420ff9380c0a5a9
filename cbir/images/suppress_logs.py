"""Suppression of decoders' warnings and logs, which may quote patient data."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_users = 0
_saved_filters: list[warnings.catch_warnings] = []


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
            _saved_filters.append(warnings.catch_warnings())
            _saved_filters[0].__enter__()
            warnings.simplefilter("ignore")
            logging.getLogger("pydicom").addFilter(_drop)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                logging.getLogger("pydicom").removeFilter(_drop)
                _saved_filters.pop().__exit__(None, None, None)
