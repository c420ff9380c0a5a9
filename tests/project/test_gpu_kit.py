"""The kit that measures on a GPU: its page, and its steps without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benches import loaded

ROOT = Path(__file__).parents[2]
KIT = ROOT / "bench" / "gpu"


@pytest.fixture(scope="module")
def report():
    return loaded("gpu/report")


def lines(tmp_path: Path, *rows: dict) -> Path:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


CARD = {"step": "environment.card", "card": "NVIDIA H100 80GB HBM3, 81559 MiB, 580.1"}


def test_without_a_run_every_row_says_so(report):
    page = report.page([])
    cells = [
        line
        for line in page.splitlines()
        if line.startswith(("| 1", "| recall", "| ms a query", "| graph", "| describe"))
    ]
    assert len(cells) > 20
    assert all("not measured" in line for line in cells)


def test_figures_stand_with_card_date_and_commit(report, tmp_path):
    query = {"step": "queries.eprf.1000000", "on": "cuda", "images": 1000000}
    query |= {"median_ms": 3.14159, "p95_ms": 4.0, "same": 0.995, "cpu_ms": 20.0}
    rows = [
        CARD,
        {"step": "environment.commit", "commit": "abc1234", "date": "2026-12-01"},
        query,
        {
            "step": "description.encoder",
            "on": "cuda",
            "cuda_per_second": 5.5,
            "cpu_per_second": 1.5,
            "least_cosine": 0.99995,
            "compared": 200,
            "files_per_second": 4.5,
            "decoded_per_second": 6.5,
            "processes": 16,
        },
        {"step": "training.lstm.cuda", "failed": "RuntimeError: a | b\nc"},
        {"step": "failures.memory.cuda.search", "refused": "the GPU failed (search): full"},
    ]
    page = report.page([report.read(lines(tmp_path, *rows))])
    assert "## NVIDIA H100 80GB HBM3" in page
    assert "2026-12-01, commit abc1234" in page
    assert "| 1,000,000 | `eprf` | 3.14 | 4.00 | 20.0 | 99.5% |" in page
    assert "| describe by the default encoder, images a second from arrays: GPU, CPU | 5.5, 1.5 |" in page
    assert "GPU, decoding alone, processes | 4.5, 6.5, 16 |" in page
    assert "least cosine between both, of so many images | 0.99995, 200 |" in page
    assert "not measured: RuntimeError: a / b c, not measured |" in page
    assert "| memory | cuda | search | the GPU failed (search): full |" in page


def test_the_reason_why_a_row_was_not_measured(report, tmp_path):
    path = lines(
        tmp_path,
        CARD,
        {"step": "queries_1m", "exit": 124, "seconds": 80},
        {"step": "queries_10m", "skipped": "no time"},
        {"step": "description", "exit": 1, "seconds": 3},
    )
    path.write_text(path.read_text() + '{"step": "trai')  # the machine was taken away
    page = report.page([report.read(path)])
    assert "| 1,000,000 | `eprf` | not measured: its step did not end in 80 s |" in page
    assert "| 10,000,000 | `eprf` | not measured: no time |" in page
    assert "| describe with small, images a second: GPU, CPU | not measured: its step ended with 1 |" in page


def test_figures_of_a_cpu_are_not_taken_for_those_of_a_gpu(report, tmp_path):
    with pytest.raises(SystemExit, match="without a GPU"):
        report.read(lines(tmp_path, {"step": "environment.card", "skipped": "no GPU"}))
    query = {"step": "queries.none.1000000", "on": "cpu", "images": 1000000, "median_ms": 5.0}
    device, graph = {"step": "faiss.device", "device": "cpu"}, {"step": "faiss.graph", "seconds": 1.0}
    rows = [CARD, query, device, graph | {"nearest": 1.0}]
    page = report.page([report.read(lines(tmp_path, *rows))])
    assert "| 1,000,000 | `none` | not measured |" in page
    assert "| graph of neighbours: seconds, share of the nearest | not measured |" in page


def kit(out: Path, **options: str) -> list[dict]:
    environment = (
        os.environ | {"OUT": str(out), "KIT": str(out / "none"), "PY": sys.executable, "SMALL": "1"} | options
    )
    ended = subprocess.run(
        ["bash", "bench/gpu/run.sh"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="needs bash and GNU timeout")
class TestSteps:
    def test_steps_end_without_a_gpu(self, tmp_path):
        rows = {row["step"]: row for row in kit(tmp_path, STEPS="environment queries_1m processes")}
        assert {rows[step]["exit"] for step in ("environment", "queries_1m", "processes")} == {0}
        assert rows["environment.missing"]["modules"] == []
        assert rows["processes.threads"]["same"]
        assert rows["queries.eprf.30000"]["same"] == 1
        assert not [row for row in rows.values() if "failed" in row]

    def test_a_step_that_hangs_costs_no_other(self, tmp_path):
        hanging = tmp_path / "python"
        hanging.write_text("#!/bin/sh\nsleep 600\n")
        hanging.chmod(0o755)
        rows = kit(tmp_path, STEPS="faiss processes", PY=str(hanging), TOTAL="20")
        assert [(row["step"], row.get("exit"), row.get("skipped")) for row in rows] == [
            ("faiss", 124, None),
            ("processes", None, "no time"),
        ]


@pytest.mark.parametrize("script", ["prepare.sh", "run.sh"])
def test_scripts_are_valid(script):
    subprocess.run(["bash", "-n", KIT / script], check=True)
