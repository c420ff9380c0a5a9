"""Files of results: what they cost to write."""

import csv
import tracemalloc
from types import SimpleNamespace

import numpy as np

from cbir.evaluation.result_files import write_queries

QUERIES, RUNS, METRICS = 5000, 4, 6


def test_values_of_many_queries_are_written_without_holding_all_of_them(tmp_path):
    query = SimpleNamespace(name="=q", row=1)
    qrels = SimpleNamespace(
        queries=[query] * QUERIES, query_classes=[0] * QUERIES, relevant=[3] * QUERIES, titles=["a"],
        without_relevant=[],
    )  # fmt: skip
    result = SimpleNamespace(
        qrels=qrels,
        plan=SimpleNamespace(metrics=[SimpleNamespace(name=f"m{number}") for number in range(METRICS)]),
        runs=[SimpleNamespace(method=SimpleNamespace(name=f"r{number}")) for number in range(RUNS)],
        values=np.full((RUNS, METRICS, QUERIES), 0.123456789),
    )
    tracemalloc.start()
    try:
        write_queries(result, tmp_path / "queries.csv")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with (tmp_path / "queries.csv").open(newline="") as file:
        _, first, *others = csv.reader(file)
    assert first == ["r0", "'=q", "1", "a", "3", *["0.123457"] * METRICS]
    assert len(others) == QUERIES * RUNS - 1
    assert peak < 2 << 20
