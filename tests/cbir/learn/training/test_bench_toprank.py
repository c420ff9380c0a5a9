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
    assert len(names) == len(list(tmp_path.iterdir())) == 10
    for name in (*names, "rank-svm", "top-push", "toprank, p by validation"):
        assert name in printed
    for path in tmp_path.glob("*.json"):
        for row in json.loads(path.read_text()):
            assert 0 <= row["pos_at_top"] <= 1
            assert row["images"]["training"][1] * 8 == row["images"]["training"][0]
    bench.main()  # only the tables
    assert capsys.readouterr().out == printed[printed.index("\n1:7") :]


def test_values_are_projected_to_directions_of_the_training_images_and_length_1(bench):
    random = np.random.default_rng(0)
    values = (10 + random.normal(size=(30, 400)) * np.arange(1, 401)).astype(np.float16)
    training = np.arange(20)
    projected = bench.project(values, training)
    assert projected.shape == (30, bench.DIRECTIONS)
    np.testing.assert_allclose(np.linalg.norm(projected, axis=1), 1, rtol=1e-5)
    assert not projected[:, 20:].any()  # 20 images have no more directions
    changed = values.copy()
    changed[20:] = 0  # not in training
    np.testing.assert_array_equal(bench.project(changed, training)[:20], projected[:20])


def test_multiple_of_a_rival_and_its_interval(bench):
    assert bench.multiple(np.array([[0.2, 0.4], [0.1, 0.2]])) == (
        pytest.approx(2),
        pytest.approx(2),
        pytest.approx(2),
    )
    times, low, high = bench.multiple(np.array([[0.2, 0.0, 0.1, 0.3], [0.1, 0.1, 0.2, 0.2]]))
    assert times == pytest.approx(1)
    assert low < 0.7 < 1.3 < high
    assert bench.multiple(np.zeros((2, 3))) == (1, 1, 1)  # neither has any
    assert bench.multiple(np.array([[0.1, 0.1], [0, 0]]))[0] == np.inf


@pytest.mark.slow
def test_heads_on_the_values_of_an_encoder(bench, data, tmp_path, monkeypatch, capsys):
    arguments = ["toprank.py", "--data", str(data), "--out", str(tmp_path), "--seeds", "0", "1", "--ratios", "7",
                 "--steps", "2", "--encoder", "lite0"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", arguments)
    bench.main()
    printed = capsys.readouterr().out
    intervals = printed[printed.index("toprank, p by validation, against, at 1:7") :].splitlines()
    assert [line.split()[0] for line in intervals[2:]] == [*bench.BASELINES, "rank-svm", "top-push"]
    assert (tmp_path / "features").is_dir()
