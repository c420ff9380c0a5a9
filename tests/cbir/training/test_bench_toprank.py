"""bench/toprank.py on a few small pictures."""

import json
import sys

import cv2
import numpy as np
import pytest

from tests.benches import loaded


@pytest.fixture(scope="module")
def bench():
    return loaded("toprank")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("knees"), np.random.default_rng(0)
    lines = ["path,grade,source"]
    for number in range(100):
        cv2.imwrite(str(folder / f"{number}.png"), random.integers(0, 200, (32, 32), dtype=np.uint8))
        lines.append(f"{number}.png,{4 if number % 10 == 0 else 0},knee")
    (folder / "manifest.csv").write_text("\n".join(lines))
    return folder


def test_training_part_has_the_requested_ratio(bench):
    positive = np.arange(1000) < 40
    parts = {"training": np.arange(0, 1000, 2), "test": np.arange(1, 1000, 2)}
    for ratio in (7, 97):
        parts_thinned = bench.thin_training(parts, positive, ratio, 0)
        m = int(positive[parts_thinned["training"]].sum())
        assert m == min(20, 480 // ratio)
        assert len(parts_thinned["training"]) == m * (1 + ratio)
        assert set(parts_thinned["training"]) <= set(parts["training"])
        assert parts_thinned["test"] is parts["test"]


def test_runs_once_and_prints_tables(bench, data, tmp_path, monkeypatch, capsys):
    arguments = ["toprank.py", "--data", str(data), "--out", str(tmp_path), "--seeds", "0", "--ratios", "7",
                 "--steps", "2", "--side", "32"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", arguments)
    bench.main()
    printed = capsys.readouterr().out
    names = [name for name, *_ in bench.methods()]
    assert len(names) == len(list(tmp_path.iterdir())) == 8
    for name in (*names, "rank-svm", "top-push", "toprank, p by validation"):
        assert name in printed
    for path in tmp_path.glob("*.json"):
        for row in json.loads(path.read_text()):
            assert 0 <= row["pos_at_top"] <= 1
            assert row["images"]["training"][1] * 8 == row["images"]["training"][0]
    bench.main()  # only the tables
    assert capsys.readouterr().out == printed[printed.index("\n1:7") :]
