"""Files in a ZIP archive, read one at a time and in bounded sizes."""

import zlib
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from cbir.errors import UnreadableImage
from cbir.images.image import Limits

SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")  # of an entry, and of an archive without entries
MOST_FILES = 10_000
MOST_BYTES = 2**30  # of all files once inflated: 2,000 slices of 512 x 512
ENTRY = b"PK\x01\x02"  # signature of an entry of the directory
ENCRYPTED = 0x1  # of the flags of an entry, PKWARE APPNOTE 4.4.4


def is_zip(data: bytes) -> bool:
    """Return whether a file is a ZIP archive."""
    return data.startswith(SIGNATURES)


class ZippedFiles:
    """Regular files of an archive; sizes are checked before anything is inflated.

    paths: of the files, by their number in the archive, since names may be those of patients.

    Raises
    ------
    UnreadableImage
        If the archive is damaged, encrypted, compressed in another way than by deflate, or has more than MOST_FILES
        files or MOST_BYTES.
    """

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._limits = limits
        if data.count(ENTRY) > 2 * MOST_FILES:  # folders have one too; a million takes 600 MB
            raise UnreadableImage(f"has too many files; zip one series, at most {MOST_FILES} files")
        try:
            self._archive = ZipFile(BytesIO(data))
        except (BadZipFile, NotImplementedError, ValueError, OSError):
            raise UnreadableImage("is a damaged ZIP archive; make it again") from None
        entries = [entry for entry in self._archive.infolist() if not entry.filename.endswith("/")]
        if len(entries) > MOST_FILES:
            raise UnreadableImage(f"has {len(entries)} files; zip one series, at most {MOST_FILES} files")
        size = sum(entry.file_size for entry in entries)
        if size > MOST_BYTES:
            raise UnreadableImage(f"inflates to {size} bytes; at most {MOST_BYTES} are read, zip fewer files")
        self._entries = {
            Path(f"file {number} of the ZIP archive"): entry for number, entry in enumerate(entries, 1)
        }
        for entry in entries:
            _check_entry(entry)

    @property
    def paths(self) -> list[Path]:
        """Names of the files, for `read_bytes` and for messages."""
        return list(self._entries)

    def read_bytes(self, path: Path) -> bytes:
        """Return the content of a file; raises UnreadableImage if it is damaged, empty or too large."""
        entry = self._entries[path]
        self._limits.check_bytes(entry.file_size)
        try:
            with self._archive.open(entry) as file:
                return file.read(entry.file_size)  # else all that the entry holds would be inflated
        except (BadZipFile, NotImplementedError, ValueError, OSError, EOFError, zlib.error):
            raise UnreadableImage("is damaged in the archive; make it again") from None


def _check_entry(entry: ZipInfo) -> None:
    if entry.flag_bits & ENCRYPTED:
        raise UnreadableImage("is an encrypted ZIP archive; make it without a password")
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise UnreadableImage("is a ZIP archive with another compression than deflate; make it with that")
