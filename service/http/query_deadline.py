"""Time limit of searches, which cancels them between and inside their stages."""

from collections.abc import Iterator
from contextlib import contextmanager

from cbir.system.cancellation import time_limit
from service.http.timeouts import Deadline


@contextmanager
def query_deadline(seconds: float) -> Iterator[Deadline]:
    """Yield the deadline of a search; within, checkpoints cancel it after `seconds` or when its client has left.

    Raises QueryCancelled for the former, RequestTimeout for the latter.
    """
    deadline = Deadline()
    with time_limit(seconds, deadline.check):
        yield deadline
