"""A sample of bench/damage.py."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests import benches


@pytest.mark.slow
@pytest.mark.parametrize(("count", "files"), [(12, None), (4, ["codes"])])
def test_no_damage_ends_in_a_traceback_or_a_wrong_answer(count: int, files: list[str] | None) -> None:
    bench = benches.loaded("damage")
    result = bench.campaign(count=count, seed=1, images=60, files=files or bench.MOSTLY_DATABASE)
    assert result["failures"] == []
    assert result["outcomes"]["opened: warned"] > 0


@pytest.mark.slow
def test_no_flipped_bit_is_silent(tmp_path: Path) -> None:
    result = benches.loaded("flipped_bits").flip_campaign(tmp_path, count=30, seed=2)
    assert result["silent"] == []


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("UPDATE labels SET value = 'other' WHERE number = 1", "labels"),
        ("DELETE FROM thumbnails WHERE number = 1", "thumbnails"),
        ("UPDATE vectors SET vector = zeroblob(672) WHERE number = 1", "vectors"),
    ],
)
def test_rows_that_a_repair_left_differently_are_noticed(tmp_path: Path, change: str, table: str) -> None:
    bench = benches.loaded("damage")
    bench.make_collection(tmp_path / "sound", 40)
    shutil.copytree(tmp_path / "sound", tmp_path / "repaired")
    sound = bench.stored_rows(tmp_path / "sound")
    assert bench.differing_tables(sound, bench.stored_rows(tmp_path / "repaired")) == []
    with closing(sqlite3.connect(tmp_path / "repaired" / "collection.sqlite")) as database:
        database.execute(change)
        database.commit()
    assert bench.differing_tables(sound, bench.stored_rows(tmp_path / "repaired")) == [table]
