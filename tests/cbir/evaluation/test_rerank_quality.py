"""The benchmark of the re-rankers' quality, on phantoms."""

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from xml.etree import ElementTree

import pytest

from cbir.evaluation.datasets.phantoms import write_phantoms
from cbir.store import Collection
from tests.benches import loaded

rerank_quality = loaded("rerank_quality")


def bench(*arguments):
    """Run the benchmark in this process; what it printed, and its progress."""
    printed, progress = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(printed), redirect_stderr(progress):
        patched.setattr(sys, "argv", ["rerank_quality.py", *map(str, arguments)])
        rerank_quality.main()
    return printed.getvalue(), progress.getvalue()


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phantoms")
    write_phantoms(folder, 120, size=48)
    return folder


@pytest.fixture(scope="module")
def measured(phantoms, tmp_path_factory):
    out = tmp_path_factory.mktemp("measured")
    few = (
        "--methods",
        "aqe",
        "pearson",
        "--ours",
        "aqe",
        "--queries",
        20,
        "--tuning-queries",
        10,
        "--jobs",
        1,
    )
    files = ("--json", out / "found.json", "--plot", out / "figure.svg")
    printed = bench("--data", phantoms, "--collection", out / "collection", *few, *files)
    return out, printed


def test_json_and_table_tell_every_method(measured):
    out, printed = measured
    found = json.loads((out / "found.json").read_text())
    assert list(found["methods"]) == ["none", "aqe", "pearson"]
    for method in found["methods"].values():
        assert 0 < method["map"] <= 1
        assert 0 <= method["p_at_10"] <= method["p_at_1"] <= 1
        assert method["ms"] > 0
        falling = [method["ip"][recall] for recall in ("0.2", "0.4", "0.6", "0.8")]
        assert falling == sorted(falling, reverse=True)
    assert found["by_p"]["aqe"].keys() == {"3", "6", "9", "12", "15"}
    assert found["auto"]["method"] == "aqe"
    assert 0 < found["queries"] <= 20
    queries = sum(part["queries"] for part in found["by_class_size"].values())
    assert queries == found["queries"]
    for text in ("none", "pearson", "aqe by P", "aqe minus", "classes of"):
        assert text in printed[0]
    assert "choosing" in printed[1]


def test_the_figure_has_a_curve_for_each_method_and_recall(measured):
    drawn = ElementTree.fromstring((measured[0] / "figure.svg").read_text())
    curves = drawn.findall(".//*[@class='curve']")
    assert len(curves) == 4 * 3


def test_a_collection_is_used_again_and_cut_without_being_changed(measured, tmp_path):
    kept = measured[0] / "collection"
    before = Collection(kept).info()["generation"]
    few = ("--methods", "none", "--queries", 20, "--tuning-queries", 10, "--jobs", 1)
    bench("--collection", kept, "--per-class", 4, *few, "--json", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["images"] < len(Collection(kept))
    assert list(found["by_class_size"]) == ["2-10"]
    assert Collection(kept).info()["generation"] == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--data FOLDER or --collection FOLDER"),
        (("--collection", "/nowhere/at/all"), "there is no collection in /nowhere/at/all"),
        (("--data", "/nowhere", "--queries", "0"), "--queries must be 1 at least"),
        (("--data", "/nowhere", "--methods", "magic"), "there is no re-ranker magic"),
    ],
)
def test_wrong_use_is_told_in_a_line(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rerank_quality.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        rerank_quality.main()
    assert said in f"{ended.value.code}{capsys.readouterr().err}"
