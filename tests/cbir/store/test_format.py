"""Collections that earlier versions wrote are opened, or refused with what to do."""

import csv
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base.schema import FORMAT
from cbir.store.base.statements import row_checksum
from cbir.store.upkeep.repair import repair_rows
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

STORED = sorted(Path(__file__).parent.glob("format-*"))


@pytest.fixture(params=STORED, ids=lambda folder: folder.name)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a collection that a version wrote; `make_format` says how."""
    return Path(shutil.copytree(request.param, tmp_path / "collection"))


def test_there_is_one_of_the_present_format():
    assert f"format-{FORMAT}" in [folder.name for folder in STORED]


def test_all_is_read(stored):
    expected = list(csv.reader((stored / "expected.csv").read_text().splitlines()))
    with Collection(stored) as collection:
        assert verify_collection(collection) == []
        found = [record for _, record in collection.iterate()]
        assert [record.image_id for record in found] == [row[0] for row in expected]
        assert [record.labels.get("label", "") for record in found] == [row[1] for row in expected]
        assert [record.patient_key or "" for record in found] == [row[2] for row in expected]
        for row in expected:
            np.testing.assert_array_equal(collection.vector(row[0]), np.array(row[3:], np.float32))


def test_it_is_searched(stored):
    expected = list(csv.reader((stored / "expected.csv").read_text().splitlines()))
    raw = np.array([row[3:] for row in expected], np.float32)
    with Collection(stored) as collection:
        view = collection.view()
        assert collection.snapshot_problem is None
        normal = view.statistics.normalise(raw)
        for row in (0, len(expected) - 1):
            distances = np.linalg.norm(normal - normal[row], axis=1)
            nearest = [expected[place][0] for place in np.argsort(distances)[1:6]]
            request = Request(k=5, rerank="none")
            answer = Searcher(collection, Settings()).by_id(expected[row][0], request, Stopwatch())
            assert [hit.image_id for hit in answer.results] == nearest


def test_it_is_written_to(stored):
    with Collection(stored) as collection:
        before = len(collection)
        with collection.writer() as writer:
            assert writer.add([entry(3)]).deleted_earlier == 1
            writer.add([entry(n) for n in range(100, 110)])
            writer.compact()
        assert len(collection) == before + 10
        assert verify_collection(collection) == []


def test_an_older_one_is_upgraded_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = Path(shutil.copytree(STORED[0], tmp_path / "collection"))
    with monkeypatch.context() as patched:  # as if the process ended before the last statement
        patched.setattr("cbir.store.writing.migration.metadata.set_value", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Collection(folder)
    with closing(sqlite3.connect(folder / "collection.sqlite")) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == ("1",)
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            connection.execute("SELECT checksum FROM images")
    with Collection(folder) as collection:
        assert verify_collection(collection) == []
        assert collection.info()["format"] == FORMAT


def test_damage_from_before_the_upgrade_shows_in_the_snapshot(tmp_path):
    folder = Path(shutil.copytree(STORED[0], tmp_path / "collection"))
    with closing(sqlite3.connect(folder / "collection.sqlite")) as connection:
        (number, stored) = connection.execute("SELECT number, vector FROM vectors LIMIT 1").fetchone()
        flipped = bytes([stored[0] ^ 0x80]) + stored[1:]
        connection.execute("UPDATE vectors SET vector = ? WHERE number = ?", (flipped, number))
        connection.commit()
    with Collection(folder) as collection, collection.writer() as writer:
        assert "have changed since the snapshot" in verify_collection(collection)[0]
        with pytest.raises(CollectionDamaged, match="have changed since the snapshot"):
            writer.compact()
        (restored,) = repair_rows(collection).restored
        assert "from the snapshot" in restored
        assert verify_collection(collection) == []
        writer.compact()
        recovered = collection.vector(collection.page(limit=1)[0][1].image_id)
    np.testing.assert_allclose(recovered, np.frombuffer(stored, "<f4"), rtol=1e-5)


@pytest.mark.parametrize(("other", "advice"), [(0, "use the version of cbir"), (99, "newer")])
def test_another_format_is_refused_and_left_alone(stored, other, advice):
    with closing(sqlite3.connect(stored / "collection.sqlite")) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'meta'").fetchone()
        checksum = f", checksum = {row_checksum(b'format', b'%d' % other)}" if "checksum" in sql else ""
        connection.execute(f"UPDATE meta SET value = ? {checksum} WHERE key = 'format'", (str(other),))
        connection.commit()
    with pytest.raises(InvalidInput, match=rf"storage format {other}.*{advice}"):
        Collection(stored)
    with closing(sqlite3.connect(stored / "collection.sqlite")) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == (str(other),)


def test_one_of_format_1_gets_the_tables_and_columns_it_lacks(tmp_path):
    folder = Path(shutil.copytree(STORED[0], tmp_path / "collection"))
    with closing(sqlite3.connect(folder / "collection.sqlite")) as connection:
        for table in ("changed_images", "changes", "thumbnails", "replies"):
            connection.execute(f"DROP TABLE {table}")
    record, vector = entry(100)
    with Collection(folder) as collection, collection.writer() as writer:
        assert collection.history() == []
        assert next(collection.iterate())[1].sop_class == ""
        (added,) = writer.add([(replace(record, instance="1.2", sop_class="1.3"), vector)]).ids
        writer.add([(replace(record, instance="1.4", source="/copy.png"), vector)])
        assert collection.record(added).sop_class == "1.3"
        assert collection.known_instances(["1.2", "1.4"]) == {"1.2", "1.4"}
        assert [change.what for change in collection.history()] == ["added"]
        assert verify_collection(collection) == []
