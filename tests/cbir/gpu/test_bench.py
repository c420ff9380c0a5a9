"""The benchmark of the device, small, on the processor."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "query_gpu.py"


def test_the_benchmark_prints_a_floor_for_every_method():
    methods = ["none", "eprf", "diffusion", "flat", "ivf"]
    options = ["--sizes", "2000", "--dimensions", "16", "--queries", "2", "--k", "10", "--compare", "2000"]
    run = subprocess.run(
        [sys.executable, str(BENCH), "--device", "cpu", *options, "--precision", "float32", "--methods", *methods],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    told = json.loads(run.stdout.splitlines()[-1])
    assert [row["method"] for row in told["results"]] == methods
    for row in told["results"]:
        floor = 1000 * max(
            row["bytes"] / told["bytes_a_second"], row["operations"] / told["operations_a_second"]
        )
        assert row["floor_ms"] == pytest.approx(floor)
        assert row["ratio"] == pytest.approx(row["median_ms"] / floor)
        assert 0 < row["median_ms"] <= row["p95_ms"]
        assert row["same"] >= 0.8
    by_name = {row["method"]: row for row in told["results"]}
    assert by_name["none"]["bytes"] == 2000 * (16 * 4 + 4 * 3)
    assert by_name["eprf"]["operations"] == 2.0 * 2000 * 16 * (1 + 66)
