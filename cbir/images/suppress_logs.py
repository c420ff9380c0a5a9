"""Keeps decoders from talking of what they find in a file; pydicom's words may quote a patient's data."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_inside = 0
_before: list[warnings.catch_warnings] = []


def _drop(record: logging.LogRecord) -> bool:
    return False


@contextmanager
def suppress_decoder_logs() -> Iterator[None]:
    """No warnings, and no log records of pydicom, while at least one thread is inside.

    Counted: warnings.catch_warnings alone, left in another order than entered, would leave its filters behind.
    """
    global _inside
    with _lock:
        if _inside == 0:
            _before.append(warnings.catch_warnings())
            _before[0].__enter__()
            warnings.simplefilter("ignore")
            logging.getLogger("pydicom").addFilter(_drop)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                logging.getLogger("pydicom").removeFilter(_drop)
                _before.pop().__exit__(None, None, None)
