"""Samples of the campaigns in bench/: kills, failing calls, power cuts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benches import FOLDER
from tests.postgresql_server import missing_reason


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of bench/ to its end."""
    command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parent)}  # now: the state folder is the test's own
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="calls are intercepted on Linux only")
def test_failing_calls_and_power_cuts_harm_no_collection(tmp_path: Path) -> None:
    from reliability import shim

    if reason := shim.obstacle():
        pytest.skip(reason)
    done = run("faults.py", "--count", 32, "--seed", 1, "--results", tmp_path / "faults.md")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in (tmp_path / "faults.md").read_text().splitlines() if line[:1] == "|"]
    counts = {cells[1].strip(): [cell.strip() for cell in cells[2:-1]] for cells in rows}
    assert counts["all"][0] == "32"
    assert counts["power cut"][0] == "20"
    assert int(counts["always"][2]) > 0, "calls that fail are noticed"
    assert int(counts["kill"][3]) > 0, "processes are killed"


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="calls are intercepted on Linux only")
def test_an_acknowledged_backup_outlives_a_power_cut() -> None:
    from reliability import shim

    if reason := shim.obstacle():
        pytest.skip(reason)
    done = run("faults.py", "--count", 21, "--seed", 3, "--operations", "backup")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.e2e
def test_kills_harm_no_collection_in_postgresql(tmp_path: Path) -> None:
    if reason := missing_reason():
        pytest.skip(reason)
    record = tmp_path / "kills.jsonl"
    done = run("kills.py", "--count", 3, "--targets", "postgresql", "--seed", 4, "--record", record)
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in record.read_text().splitlines()]
    assert [each["killed"] for each in rounds].count(True) == 3
    assert sum(number for each in rounds for number in each["acknowledged"].values()) > 0


@pytest.mark.slow
@pytest.mark.e2e
def test_kills_harm_no_cluster_with_a_vector_index(tmp_path: Path) -> None:
    if reason := missing_reason():
        pytest.skip(reason)
    record = tmp_path / "kills.jsonl"
    done = run("kills.py", "--count", 2, "--targets", "pgvector", "--seed", 1, "--record", record)
    assert done.returncode == 0, done.stderr
    assert "The index held what the collection holds" in done.stdout
    rounds = [json.loads(line) for line in record.read_text().splitlines()]
    assert sum(each["acknowledged"].get("job", 0) for each in rounds) >= 10
    assert all(each["figures"]["attempts"] >= 1 for each in rounds)


@pytest.mark.slow
@pytest.mark.e2e
def test_kills_harm_no_collection(tmp_path: Path) -> None:
    record, arguments = tmp_path / "kills.jsonl", ("--targets", "compact", "serve", "erase", "--seed", 1)
    done = run("kills.py", "--count", 1, *arguments, "--record", record)
    assert done.returncode == 0, done.stderr
    done = run("kills.py", "--count", 3, *arguments, "--record", record)
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in record.read_text().splitlines()]
    targets = [each["target"] for each in rounds]
    assert targets == (["compact", "serve", "erase"] * len(rounds))[: len(rounds)]
    assert [each["killed"] for each in rounds].count(True) == 3
    assert rounds[-1]["killed"], "it ends with the last kill that counts"
    assert sum(rounds[1]["acknowledged"].values()) > 0
    assert run("kills.py", "--count", 4, "--targets", "serve", "--record", record).returncode == 1
