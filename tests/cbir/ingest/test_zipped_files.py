"""Files in ZIP archives: what is read, and what is refused before it is inflated."""

import struct
import tracemalloc
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest

from cbir.errors import UnreadableImage
from cbir.images import Limits
from cbir.ingest import query_file as zipped_files
from cbir.ingest.query_file import ZippedFiles, is_zip


def zipped(*contents: bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive with a folder, and a file of each content below it."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.mkdir("Jane Doe")
        for number, content in enumerate(contents):
            archive.writestr(f"Jane Doe/{number}", content)
    return buffer.getvalue()


EMPTY = b"PK\x05\x06" + bytes(18)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_files_are_read_by_number(compression):
    files = ZippedFiles(zipped(b"first", b"second" * 1000, compression=compression), Limits())
    assert files.paths == [Path("file 1 of the ZIP archive"), Path("file 2 of the ZIP archive")]
    assert [files.read_bytes(path) for path in files.paths] == [b"first", b"second" * 1000]


def test_only_archives_are_recognised():
    assert is_zip(zipped(b"x"))
    assert is_zip(EMPTY)
    assert not is_zip(b"\x89PNG")
    assert not is_zip(b"")


@pytest.mark.parametrize("archive", [zipped(), EMPTY])
def test_archive_without_files(archive):
    assert ZippedFiles(archive, Limits()).paths == []


def test_bomb_is_refused_before_inflating(monkeypatch):
    monkeypatch.setattr(zipped_files, "MOST_BYTES", 2**20)
    bomb = zipped(bytes(2**19), bytes(2**19), b"x")
    assert len(bomb) < 10_000
    with pytest.raises(UnreadableImage, match="inflates to 1048577 bytes; at most 1048576 are read"):
        ZippedFiles(bomb, Limits())


def understated(content: bytes, size: int, checksum: int | None = None) -> bytes:
    """Return an archive of one file whose directory declares another size, and another CRC if one is given."""
    archive = bytearray(zipped(content))
    directory = archive.rindex(b"PK\x01\x02")
    struct.pack_into("<I", archive, directory + 24, size)
    if checksum is not None:
        struct.pack_into("<I", archive, directory + 16, checksum)
    return bytes(archive)


def test_declared_size_bounds_what_is_read():
    """An entry that declares fewer bytes than it holds does not pass the limit of sizes."""
    files = ZippedFiles(understated(bytes(2**22), 100), Limits())
    with pytest.raises(UnreadableImage, match="is damaged in the archive"):
        files.read_bytes(files.paths[0])


def test_declared_size_bounds_what_is_inflated():
    """The rest of an entry takes no memory either."""
    files = ZippedFiles(understated(bytes(2**26), 100, zlib.crc32(bytes(100))), Limits())
    tracemalloc.start()
    try:
        content = files.read_bytes(files.paths[0])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert content == bytes(100)
    assert most < 2**20


def test_too_many_files(monkeypatch):
    monkeypatch.setattr(zipped_files, "MOST_FILES", 3)
    with pytest.raises(UnreadableImage, match="has 4 files"):
        ZippedFiles(zipped(*[b"x"] * 4), Limits())


def test_a_large_directory_is_not_read():
    entry = b"PK\x01\x02" + bytes(24) + b"\x01" + bytes(17) + b"a"
    directory = entry * 50_000
    end = b"PK\x05\x06" + bytes(4) + struct.pack("<HHIIH", 50_000, 50_000, len(directory), 30, 0)
    archive = b"PK\x03\x04" + bytes(26) + directory + end
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableImage, match="has too many files; zip one series, at most 10000 files"):
            ZippedFiles(archive, Limits())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**20


def test_large_and_empty_files_are_refused_alone():
    files = ZippedFiles(zipped(b"", bytes(1001), b"x"), Limits(bytes=1000))
    empty, large, small = files.paths
    with pytest.raises(UnreadableImage, match="is empty"):
        files.read_bytes(empty)
    with pytest.raises(UnreadableImage, match="has 1001 bytes"):
        files.read_bytes(large)
    assert files.read_bytes(small) == b"x"


def test_other_compression_is_refused():
    with pytest.raises(UnreadableImage, match="another compression than deflate"):
        ZippedFiles(zipped(b"x", compression=zipfile.ZIP_LZMA), Limits())


def test_encryption_is_refused():
    content = bytearray(zipped(b"x"))
    directory = content.rindex(b"PK\x01\x02")
    content[directory + 8] |= 1
    with pytest.raises(UnreadableImage, match="is an encrypted ZIP archive"):
        ZippedFiles(bytes(content), Limits())


@pytest.mark.parametrize("cut", [30, 60, -30, -1])
def test_truncated_archive_is_refused(cut):
    with pytest.raises(UnreadableImage, match="is a damaged ZIP archive"):
        ZippedFiles(zipped(b"some text" * 100)[:cut], Limits())


def test_file_without_name_is_read():
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("x"), b"text")
    content = bytearray(buffer.getvalue())
    directory = content.rindex(b"PK\x01\x02")
    struct.pack_into("<HH", content, directory + 28, 0, 1)  # the name becomes an extra field
    struct.pack_into("<HH", content, 26, 0, 1)
    files = ZippedFiles(bytes(content), Limits())
    assert [files.read_bytes(path) for path in files.paths] == [b"text"]


def test_damaged_file_is_refused():
    content = bytearray(zipped(b"some text" * 100))
    start = content.index(b"Jane Doe/0") + len(b"Jane Doe/0")
    content[start : start + 4] = b"\xff\xff\xff\xff"
    files = ZippedFiles(bytes(content), Limits())
    with pytest.raises(UnreadableImage, match="is damaged in the archive"):
        files.read_bytes(files.paths[0])
