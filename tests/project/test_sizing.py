"""The sizing of a cluster in bench/results/cluster.md is what its command prints, from figures that were measured."""

import re
from types import ModuleType

import pytest

from tests.benches import loaded
from tests.project.dockerfile import ROOT

RESULTS = ROOT / "bench" / "results"
SECTIONS = {10_000_000: "Ten million images", 1_000_000: "One million images"}
MEMORY, DISK = 3, 4  # columns of the tables of scale.md


@pytest.fixture(scope="module")
def cost() -> ModuleType:
    return loaded("cluster_cost")


def test_the_table_is_what_the_command_prints(cost: ModuleType) -> None:
    text = (RESULTS / "cluster.md").read_text()
    assert cost.table(256, cost.Prices()) in text
    assert f"{cost.ROW_BYTES:,} bytes" in text
    hours = [f"{cost.hours_to_describe(images):,.0f}" for images in cost.SIZES]
    assert f"takes {hours[0]}, {hours[1]} and {hours[2]} hours of a core" in " ".join(text.split())


def test_bytes_in_an_index_are_those_that_were_measured(cost: ModuleType) -> None:
    sections = dict(
        part.split("\n", 1) for part in re.split(r"^## ", (RESULTS / "scale.md").read_text(), flags=re.M)[1:]
    )
    for index in cost.INDEXES:
        rows = [line.split("|")[1:] for line in sections[SECTIONS[index.measured]].splitlines()]
        (row,) = [row for row in rows if len(row) > 9 and row[0].lower().strip(" `").startswith(index.kind)]
        measured = {
            name: float(row[column]) * 1e9 / index.measured
            for name, column in (("memory", MEMORY), ("disk", DISK))
            if row[column].strip()
        }
        assert measured, index.kind
        for name, number in measured.items():
            assert getattr(index, name) == pytest.approx(number), (index.kind, name)


def test_layouts(cost: ModuleType) -> None:
    indexes = {index.kind: index for index in cost.INDEXES}
    small = cost.layout(10, indexes["ivf"], 256)
    assert (small.machines, round(small.service_gib), small.database_gib) == (5, cost.PROCESS_GIB, 16)
    assert small.cost(cost.Prices(1, 0, 0)) == pytest.approx(2 * 8 + 2 * 16 + 16, abs=0.01)
    assert cost.layout(10**9, indexes["ivf"], 256) is None
    spread = cost.layout(10**9, indexes["milvus"], 256)
    assert spread.index_machines * spread.index_gib == pytest.approx(1e9 * 780 / 2**30 / 0.75)
    assert spread.index_gib <= 256
    assert spread.machines == 5 + spread.index_machines
    ivf, twice = (cost.layout(images, indexes["ivf"], 256) for images in (10**8, 2 * 10**8))
    assert twice.disk_tb == pytest.approx(2 * ivf.disk_tb)
