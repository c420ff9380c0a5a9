"""The benchmark of the device, small, on the processor."""

import json
import sys

import pytest

from tests.benches import loaded


def test_the_benchmark_prints_a_floor_for_every_method(monkeypatch, capsys):
    methods = ["none", "eprf", "diffusion", "flat", "ivf"]
    options = ["--sizes", "2000", "--dimensions", "16", "--queries", "2", "--k", "10", "--compare", "2000"]
    monkeypatch.setattr(
        sys,
        "argv",
        ["query_gpu.py", "--device", "cpu", *options, "--precision", "float32", "--methods", *methods],
    )
    loaded("query_gpu").main()
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
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
