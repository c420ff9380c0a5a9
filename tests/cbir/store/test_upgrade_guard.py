"""A process of an older version, which has the collection open while it is upgraded, can write no more."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cbir.store import Collection
from cbir.store.safety.last_good import NAME
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

IMAGE = (
    "INSERT INTO images (image_id, content_hash, source, source_stamp, format, width, height, study, series, "
    "instance, burned_in) VALUES ('x', 'x', '/x.png', '1', 'png', 1, 1, '', '', '', 0)"
)
WRITES = (
    IMAGE,
    "INSERT INTO labels (key, value, number) VALUES ('a', 'b', 1)",
    "UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'",
    "UPDATE images SET source = '/moved.png' WHERE number = 1",
    "INSERT INTO forgotten (content_hash) VALUES ('x')",
    "INSERT INTO meta (key, value) VALUES ('statistics', '') ON CONFLICT DO UPDATE SET value = excluded.value",
)


@pytest.fixture
def old(tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A collection of format 1, and a connection that was opened before it is upgraded."""
    folder = Path(shutil.copytree(Path(__file__).parent / "format-1", tmp_path / "collection"))
    with closing(sqlite3.connect(folder / "collection.sqlite", isolation_level=None)) as connection:
        connection.execute("SELECT count(*) FROM images").fetchone()
        yield folder, connection


@pytest.mark.parametrize("write", WRITES)
def test_it_cannot_write(old: tuple[Path, sqlite3.Connection], write: str) -> None:
    folder, connection = old
    with Collection(folder) as collection:
        connection.execute("BEGIN")
        with pytest.raises(sqlite3.IntegrityError, match="restart this program"):
            connection.execute(write)
        connection.execute("ROLLBACK")
        assert verify_collection(collection) == []
        assert len(collection.view()) == len(collection)


def test_the_new_version_writes_as_before(old: tuple[Path, sqlite3.Connection]) -> None:
    folder, _ = old
    with Collection(folder) as collection, collection.writer() as writer:
        (image_id,) = writer.add([entry(100, labels={"a": "b"})]).ids
        writer.set_labels(image_id, {"a": "c"})
        writer.relabel("/images/100.png", {"a": "d"}, "p")
        writer.relabel("/images/100.png", {"a": "d"}, "p")
        writer.compact(refit=True)
        writer.delete([image_id])
        assert (folder / NAME).is_dir()
        assert verify_collection(collection) == []
