"""Files: atomic, durable writes, locks, folders by default, limits of files and disks, and cells of csv files."""

import csv
import errno
import hashlib
import io
import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, TextIO, cast

from cbir.errors import CbirError, InvalidInput
from cbir.system.ownership import BINARY as BINARY
from cbir.system.ownership import OWNER_FILE as OWNER_FILE
from cbir.system.ownership import OWNER_FOLDER as OWNER_FOLDER
from cbir.system.ownership import create_file, make_folder, open_existing

SUFFIX = ".partial"

PUBLIC_FILE = (
    0o666  # less the umask; for what is about no patient: tests/project/test_private_outputs.py lists it
)


@contextmanager
def os_errors(what: str) -> Iterator[None]:
    """Raise InvalidInput in place of an OSError, with `what` before its reason, as "a.csv cannot be read"."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{what}: {error.strerror}") from error


def read_password(file: Path, setting: str, failure: type[CbirError] = InvalidInput) -> str:
    """Return the text of the `file` that a `setting` names, without its line end; raises `failure`."""
    try:
        return file.read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise failure(f"{setting} {file} cannot be read: {reason}") from error


@contextmanager
def atomic_binary(
    path: Path, *, permissions: int = OWNER_FILE, suffix: str = SUFFIX, durable: bool = True
) -> Iterator[BinaryIO]:
    """Open a binary file that appears under its name when the block ends without an error.

    Parameters
    ----------
    path : Path
        Target; its folder must exist.
    permissions : int
        File mode, less the process's umask; the owner's alone by default.
    suffix : str
        Appended to the target's name for the temporary file. Processes that may write the same path at the same
        time need different ones.
    durable : bool
        Sync file and folder. False only for many small files that can be made again, such as extracted images.

    Yields
    ------
    BinaryIO
        The temporary file, empty and seekable.
    """
    partial = path.with_name(path.name + suffix)
    partial.unlink(missing_ok=True)
    try:
        with open(create_file(partial, os.O_RDWR, permissions), "w+b") as file:
            yield cast(BinaryIO, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)  # it takes up space, which may be what is missing
        raise
    if durable:
        sync_folder(path.parent)


@contextmanager
def atomic_text(path: Path, *, permissions: int = OWNER_FILE, errors: str = "strict") -> Iterator[TextIO]:
    """Open a UTF-8 text file that appears under its name when the block ends without an error.

    Lines end as they are written, on every system.

    Parameters
    ----------
    path : Path
        Target; its folder must exist.
    permissions : int
        See `atomic_binary`.
    errors : str
        Of `open`, for characters that UTF-8 has not; file names may have such.
    """
    with atomic_binary(path, permissions=permissions) as binary:
        file = TextIOWrapper(binary, encoding="utf-8", errors=errors, newline="\n")
        try:
            yield file
        finally:
            file.detach()  # writes what is buffered; the binary file stays open


def write_bytes(
    path: Path, content: bytes, *, permissions: int = OWNER_FILE, suffix: str = SUFFIX, durable: bool = True
) -> None:
    """Replace a file by `content`.

    Parameters
    ----------
    path : Path
        Target; its folder must exist.
    content : bytes
        New content.
    permissions, suffix, durable
        See `atomic_binary`.
    """
    with atomic_binary(path, permissions=permissions, suffix=suffix, durable=durable) as file:
        file.write(content)


def open_private(path: str, flags: int) -> int:
    """Opener for `open`: a file that is new, or written over, can be read by its owner alone."""
    file = os.open(path, flags, OWNER_FILE)
    if flags & os.O_TRUNC and hasattr(os, "fchmod") and S_ISREG(os.fstat(file).st_mode):
        with suppress(PermissionError):  # it is someone else's, who decides
            os.fchmod(file, OWNER_FILE)
    return file


def private_folder(folder: Path) -> None:
    """Create a folder, and its missing parents, that only their owner can read; one that exists stays as it is."""
    for each in (*reversed(folder.parents), folder):  # the mode of mkdir is not that of parents
        if not each.is_dir():
            if each.exists() and each != folder:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            make_folder(each, exist_ok=True)


def copy_file(source: Path, target: Path, permissions: int = OWNER_FILE, *, durable: bool = True) -> None:
    """Copy the content of `source` to `target`; for `permissions` and `durable` see `atomic_binary`."""
    with (
        os.fdopen(open_existing(source, os.O_RDONLY), "rb") as content,
        atomic_binary(target, permissions=permissions, durable=durable) as file,
    ):
        shutil.copyfileobj(content, file)


def rename_durably(partial: Path, folder: Path) -> None:
    """Rename a finished folder `partial` to `folder`, so that a power cut leaves all of it or nothing."""
    if hasattr(os, "sync"):  # all file systems, since the folder may hold any number of files
        os.sync()
    partial.rename(folder)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    BEYOND = 2**31 - 2  # Windows locks bytes, and no one may read locked ones: take one behind any content

    def _lock(file: int, mode: int) -> None:
        position = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(file, mode, 1)
        finally:
            os.lseek(file, position, os.SEEK_SET)

    def try_lock(file: int) -> bool:
        """Lock an open file descriptor for this process; False if another one holds the lock."""
        try:
            _lock(file, msvcrt.LK_NBLCK)
        except OSError:
            return False
        return True

    def wait_lock(file: int) -> None:
        """Lock an open file descriptor, waiting until no other process holds the lock."""
        while True:
            try:
                return _lock(file, msvcrt.LK_LOCK)  # gives up after ten seconds
            except OSError:
                continue

else:
    import fcntl

    def try_lock(file: int) -> bool:
        """Lock an open file descriptor for this process; False if another one holds the lock."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_lock(file: int) -> None:
        """Lock an open file descriptor, waiting until no other process holds the lock."""
        fcntl.flock(file, fcntl.LOCK_EX)


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


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_inside(path: Path, roots: Iterable[Path]) -> bool:
    """Return True if the real path of `path`, which need not exist, is one of the roots' real paths or below one."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)


def may_exist(path: Path) -> bool:
    """Return whether a file is there, also where there is no permission to see it."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def state_folder() -> Path:
    """Return the state folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")) / "cbir"


def encoder_folder() -> Path:
    """Return the folder of encoders."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "cbir" / "encoders"


def feature_folder() -> Path:
    """Return the folder of cached values."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "cbir" / "features"


def free_bytes(folder: Path) -> int | None:
    """Return the bytes free on the disk of a folder, which need not exist yet; None if the disk does not say."""
    for path in (folder, *folder.parents):
        try:
            return shutil.disk_usage(path).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


def has_room(folder: Path) -> bool:
    """Return False if the disk of a folder has no block left for this process, those reserved for root included."""
    if not hasattr(os, "statvfs"):
        return free_bytes(folder) != 0
    status = os.statvfs(folder)
    return (status.f_bfree if os.geteuid() == 0 else status.f_bavail) > 0


# Where a spreadsheet separates by ; or tabs, quotes of ours hold no cell together, and a line break ends a row.
SEPARATORS = re.compile(r"([;\t\r\n])")
FORMULA = re.compile(r"[\s\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]")  # also full-width, which Excel reads alike
CONTROL_STARTS = ("\t", "\r", "\n")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as csv, each of their cells harmless."""
    text = io.StringIO()
    write_rows(text, rows)
    return text.getvalue()


def write_rows(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as csv, one at a time, each of their cells harmless."""
    csv.writer(file, lineterminator="\n").writerows(map(harmless_cell, row) for row in rows)


def harmless_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, with an apostrophe before one; numbers stay.

    A formula may also follow a semicolon, tab or line break, which separates cells in many spreadsheets.
    """
    if not isinstance(value, str):
        return value
    text = "".join(_harmless_part(part) for part in SEPARATORS.split(value))
    return f"'{text}" if text.startswith(CONTROL_STARTS) else text


def _harmless_part(part: str) -> str:
    if not FORMULA.match(part):
        return part
    try:
        return part if math.isfinite(float(part)) and part == part.strip() else f"'{part}"
    except ValueError:
        return f"'{part}"
