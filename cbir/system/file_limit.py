"""Limit of open files."""

from contextlib import suppress

from cbir.errors import InvalidInput

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def raise_file_limit(needed: int, least: int) -> None:
    """Raise the soft limit of open files.

    Parameters
    ----------
    needed : int
        Files that may be open under full load.
    least : int
        Files to start with.

    Raises
    ------
    InvalidInput
        If the hard limit is below `least`.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with suppress(OSError, ValueError):  # what the system refuses is found below
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft < least:
        raise InvalidInput(
            f"{soft} files may be open, but {least} are needed at least, better {needed}; raise the limit with "
            "`ulimit -n`, or with LimitNOFILE in a systemd unit"
        )
