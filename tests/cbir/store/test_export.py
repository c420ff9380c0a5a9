"""Exported csv: cells that spreadsheets would run, and file names that may be names of patients."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app as commands
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.store.records import originals
from cbir.store.upkeep.collection_copy import export_collection

FORMULAS = [
    '=HYPERLINK("http://evil")',
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "=",
    "-inf",
    "- 1",
    "+nan",
]
PLAIN = ["-1.5", "+2", "-1e3", "knee = hand", "'quoted", "1", "a-b"]


def rows_of(out: Path) -> list[dict[str, str]]:
    with (out / "records.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def named(tmp_path: Path) -> Collection:
    """A collection with dangerous labels, read from files with a patient's name."""
    collection = Collection.create(tmp_path / "own", profiles.get("tamura"))
    entries = []
    for number, value in enumerate([*FORMULAS, *PLAIN]):
        record = Record(
            f"{number:032x}",
            f"/scans/Doe_Jane/{number}.png",
            "1",
            "png",
            8,
            8,
            labels={"note": value, "=k": "v"},
        )
        entries.append((record, np.full(6, number, np.float32)))
    sent = Record("f" * 32, originals.source_of(b"x"), "sent", "png", 8, 8)
    with collection.writer() as writer:
        writer.add([*entries, (sent, np.full(6, 99, np.float32))])
    return collection


def test_formulas_are_text(named: Collection, tmp_path: Path) -> None:
    export_collection(named, tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    expected = [f"'{text}" for text in FORMULAS]
    expected[4:6] = ["'\t'=1", "'\r'=1"]  # a tab, or a line break, may begin a cell of its own
    assert [row["note"] for row in rows[:-1]] == expected + PLAIN
    assert {row["'=k"] for row in rows[:-1]} == {"v"}
    assert not any(cell.startswith(("=", "@", "\t", "\r")) for row in rows for cell in [*row, *row.values()])


def test_file_names_only_when_wanted(named: Collection, tmp_path: Path) -> None:
    export_collection(named, tmp_path / "out")
    hidden = rows_of(tmp_path / "out")
    assert "Doe" not in (tmp_path / "out" / "records.csv").read_text()
    assert all(re.fullmatch("source:[0-9a-f]{32}", row["source"]) for row in hidden[:-1])
    assert len({row["source"] for row in hidden}) == len(hidden)
    assert hidden[-1]["source"] == originals.source_of(b"x")
    options = [
        "collection",
        "export",
        "--collection",
        str(named.folder),
        "--sources",
        str(tmp_path / "named"),
    ]
    assert CliRunner().invoke(commands, options).exit_code == 0
    assert rows_of(tmp_path / "named")[0]["source"] == "/scans/Doe_Jane/0.png"
