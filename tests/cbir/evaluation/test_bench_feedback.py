"""The simulated person of bench/feedback.py."""

from dataclasses import replace

import numpy as np
import pytest

from cbir.store import Collection
from cbir.store.base import profile as profiles
from tests.benches import loaded
from tests.cbir.store.conftest import entry


@pytest.fixture(scope="module")
def bench():
    return loaded("feedback")


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    made = Collection.create(tmp_path_factory.mktemp("bench") / "collection", profiles.get("tamura"))
    with made.writer() as writer:
        writer.add([entry(n, labels={"label": "ab"[n % 2]}) for n in range(60)])
        writer.finish()
    return made


def test_average_precision_is_the_mean_of_precisions_at_hits(bench):
    random = np.random.default_rng(0)
    for _ in range(20):
        relevant = random.random(30) < 0.3
        hits, precisions = 0, []
        for place, is_hit in enumerate(relevant, start=1):
            hits += int(is_hit)
            if is_hit:
                precisions.append(hits / place)
        assert bench.average_precision(relevant) == pytest.approx(sum(precisions) / len(precisions))
    assert bench.average_precision(np.array([True, False, True])) == pytest.approx(5 / 6)
    assert np.isnan(bench.average_precision(np.zeros(3, bool)))


@pytest.mark.parametrize("draw", ["classes", "images"])
def test_rounds_start_equal_and_the_person_is_right(bench, collection, draw):
    plan = bench.Simulation(queries=6, rounds=3, judged=5, seed=1, draw=draw)
    found = bench.simulate(collection, plan)
    assert [turn["round"] for turn in found["rounds"]] == [0, 1, 2, 3]
    first, last = found["rounds"][0], found["rounds"][-1]
    assert first["map"] == first["shown"] == first["unjudged"]
    assert last["shown"]["mean"] > first["shown"]["mean"]
    again = bench.simulate(collection, plan)
    for one, other in zip(found["rounds"], again["rounds"], strict=True):
        assert one["map"] == other["map"]


def test_methods_are_compared_on_the_same_examples(bench, collection):
    assert bench.parse_method("eprf:P=3:gamma=auto") == ("eprf", {"P": 3, "gamma": "auto"})
    plan = bench.Simulation(queries=3, rounds=1, judged=5, seed=1, draw="classes", examples=4)
    found = bench.simulate(collection, plan)
    other = bench.simulate(collection, replace(plan, method="eprf", parameters={"P": 3}))
    assert (other["method"], other["parameters"], other["examples"]) == ("eprf", {"P": 3}, 4)
    assert found["rounds"][0]["map"] != other["rounds"][0]["map"]
    labels = ["ab"[n % 2] for n in range(60)]
    assert len(set(bench._examples(labels, 5, plan))) == 4
    assert {labels[image] for image in bench._examples(labels, 5, plan)} == {"b"}


def test_plot_is_a_drawing(bench, collection, tmp_path):
    plan = bench.Simulation(queries=2, rounds=1, judged=5, seed=1, draw="images")
    found = bench.simulate(collection, plan)
    bench.plot(found, tmp_path / "rounds.svg")
    drawn = (tmp_path / "rounds.svg").read_text()
    assert drawn.count('class="curve"') == 3
    assert drawn.startswith("<svg")
