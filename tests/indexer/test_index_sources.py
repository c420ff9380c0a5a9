"""What `cbir index` refuses, names and counts of its sources and its target."""

import csv
import shutil
from pathlib import Path

import pytest

from cbir.images import Limits
from cbir.ingest.description import DescribeTask
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.safety.database_files import UNFINISHED
from cbir.store.upkeep.carry_over import open_counterpart
from indexer.index_job import NoProgress
from indexer.index_request import IndexRequest
from indexer.index_run import run_request
from indexer.redescribe_run import RedescribeRun
from tests.indexer.commands import call
from tests.indexer.conftest import picture

TAMURA = ("--profile", "tamura", "--jobs", 1)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for seed in range(3):
        picture(tmp_path / "images" / f"{seed}.png", seed)
    return tmp_path / "images"


@pytest.mark.parametrize("others", [[], ["notes.txt"], [".hidden.png", "deep/labels.csv"]])
def test_a_folder_without_images_is_no_success(images: Path, tmp_path: Path, others: list[str]) -> None:
    empty, target = tmp_path / "empty", tmp_path / "collection"
    for name in ["", *others]:
        (empty / name).parent.mkdir(parents=True, exist_ok=True)
        (empty / name).write_text("a") if name else empty.mkdir(exist_ok=True)
    for sources in ([empty], [images, empty]):
        told = call("index", *sources, "--collection", target, *TAMURA, code=2)[1]
        assert f"{empty} has no image files; is its disk mounted?" in told
        assert not target.exists()


def test_a_manifest_without_rows_is_no_success(images: Path, tmp_path: Path) -> None:
    labels, target = tmp_path / "labels.csv", tmp_path / "collection"
    labels.write_text("path;label\n")
    told = call("index", images, "--labels", labels, "--collection", target, *TAMURA, code=2)[1]
    assert f"{labels} has no row below its first line" in told
    assert not target.exists()


def test_files_of_others_are_not_mixed_with_those_of_a_collection(images: Path, tmp_path: Path) -> None:
    before = sorted(images.iterdir())
    told = call("index", images / "0.png", "--collection", images, *TAMURA, code=2)[1]
    assert f"{images} holds other files than a collection, such as 0.png" in told
    assert sorted(images.iterdir()) == before


def test_a_volume_and_an_interrupted_creation_are_no_obstacle(images: Path, tmp_path: Path) -> None:
    for name in ("lost+found", "snapshots"):
        (tmp_path / "volume" / name).mkdir(parents=True)
    for name in (".keep", "writer.lock", UNFINISHED, "patient.key.partial", "collection.sqlite-wal"):
        (tmp_path / "volume" / name).touch()
    call("index", images, "--collection", tmp_path / "volume", *TAMURA)
    with Collection(tmp_path / "volume") as opened:
        assert len(opened) == 3


def test_duplicates_are_named_in_the_report(images: Path, tmp_path: Path) -> None:
    shutil.copy(images / "1.png", images / "again.png")
    (images / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    report = tmp_path / "report.csv"
    arguments = ("index", images, "--collection", tmp_path / "collection", "--report", report, *TAMURA)
    printed = call(*arguments, code=3)[0]
    assert "3 images indexed" in printed
    assert "1 image left out: a duplicate of images in the collection" in printed
    assert "1 file refused:" in printed
    with report.open(newline="") as file:
        rows = {Path(path).name: reason for path, reason in list(csv.reader(file))[1:]}
    with Collection(tmp_path / "collection") as opened:
        (shown,) = [record for _, record in opened.iterate() if Path(record.source).name == "1.png"]
    assert rows.keys() == {"again.png", "broken.png"}
    assert rows["again.png"] == f"left out: the same picture as {shown.image_id}"


def test_a_job_of_the_service_hears_of_refused_files_alone(images: Path, tmp_path: Path) -> None:
    shutil.copy(images / "1.png", images / "again.png")
    refused: list[str] = []
    request = IndexRequest([images], tmp_path / "collection", "tamura")
    summary = run_request(request, NoProgress(), lambda path, reason: refused.append(path))
    assert (summary.duplicates, refused) == (1, [])


class Stages(NoProgress):
    """Keeps the stages with their steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[str, list[tuple[int, int]]] = {}

    def show_stage(self, stage: str, done: int, total: int) -> None:
        """Keep the steps."""
        self.steps.setdefault(stage, []).append((done, total))

    def show_described(self, done: int, total: int, refused: int) -> None:
        """Ignore the images described."""


@pytest.mark.slow
def test_the_comparison_of_rerankers_is_a_stage_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    for seed in range(120):
        picture(folder / f"{seed}.png", seed)
    rows = [f"{seed}.png,{seed % 3}" for seed in range(120)]
    (folder / "labels.csv").write_text("\n".join(["path,label", *rows]))
    stages = Stages()
    request = IndexRequest([folder], tmp_path / "collection", "tamura", labels=folder / "labels.csv")
    summary = run_request(request, stages, lambda path, reason: None)
    assert summary.indexed == 120
    assert 0 < summary.describing_seconds < summary.seconds
    for stage in ("comparing re-rankers", "counting answers that agree"):
        steps = stages.steps[stage]
        assert [done for done, _ in steps] == list(range(steps[0][1] + 1)), stage
    again = Stages()
    with (
        Collection(tmp_path / "collection") as source,
        open_counterpart(source, tmp_path / "second", profiles.get("color_layout")) as target,
    ):
        task = DescribeTask(target.profile, target.secret, Limits())
        redescribed = RedescribeRun(source, target, task, 1, print, again.show_described, again.show_stage)()
    assert redescribed.described == 120
    assert 0 < redescribed.describing_seconds < redescribed.seconds
    assert again.steps.keys() == stages.steps.keys()


def test_a_folder_named_like_a_command(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images.rename("dicomweb")
    assert "3 images indexed" in call("index", "dicomweb", "--collection", "c", *TAMURA)[0]
    told = call("index", "dicomweb", "http://127.0.0.1:9/dicom-web", "--collection", "d", code=2)[1]
    assert "127.0.0.1:9" in told, "an address follows: this is the command"


def test_the_environment_names_the_collection(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBIR_COLLECTION", str(tmp_path / "named"))
    call("index", images, *TAMURA)
    assert "none over the collection" in call("search", images / "0.png", "--rerank", "none")[0]
    call("admin", "config")


def test_a_search_without_results_says_why(images: Path, tmp_path: Path) -> None:
    call("index", images, "--collection", tmp_path / "c", *TAMURA)
    other = picture(tmp_path / "other.png", 9)
    printed = call("search", other, "--collection", tmp_path / "c", "--max-distance", 0)[0]
    assert "no results: the collection is empty, or no image fulfils the conditions" in printed
