"""`cbir index --ray` on two nodes: the same collection as on one machine, whatever happens to files and nodes."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from cbir.images import Limits
from cbir.ingest.description import DescribeTask
from cbir.store import Collection
from cbir.store import profile as profiles
from indexer.describe_files import AHEAD, CHUNK, FileTask, describe_in
from indexer.ray_cluster.file_pool import RayFilePool
from indexer.ray_cluster.ray_connection import connect_ray
from tests import hostile_images as hostile
from tests.indexer.commands import call, index
from tests.indexer.conftest import picture
from tests.indexer.dicomweb.small_archive import SmallArchive, serving
from tests.indexer.ray_cluster.conftest import KILLER, UNSEEN, TwoNodes
from tests.indexer.receiving import instances_in, slices
from tests.object_store import serve_bucket

pytestmark = pytest.mark.slow
CBIR = (sys.executable, "-m", "cbir.main")
MARKER = "MUSTERMANN"


def content(place: Path) -> list[tuple[str, str, str, bytes]]:
    """Ids, sources, stamps and vectors of a collection, in their order."""
    with Collection(place) as collection:
        return [
            (record.image_id, record.source, record.source_stamp, collection.stored_vector(record.image_id))
            for _, record in collection.iterate()
        ]


@contextmanager
def started(folder: Path, place: Path, address: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `cbir index --ray` in a process of its own."""
    command = [*CBIR, "index", str(folder), "--collection", str(place), "--ray", address]
    command += ["--profile", "huang2012", "--format", "json", "--progress", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_images(process: "subprocess.Popen[str]") -> None:
    """Wait until some images are in the collection."""
    assert process.stderr
    while json.loads(process.stderr.readline())["done"] == 0:
        pass


def pictures(folder: Path, count: int, size: int = 40) -> Path:
    for seed in range(count):
        picture(folder / f"{seed:04d}.png", seed, size)
    return folder


def test_the_collection_is_the_same_as_from_one_machine(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Also with files that are damaged, crash nothing, or take too long."""
    folder = pictures(tmp_path / "images", 80)
    (folder / "0007.png").write_bytes((folder / "0006.png").read_bytes())  # a duplicate
    (folder / "damaged.png").write_bytes(hostile.png_of_zeros(50)[:60])
    (folder / "bomb.png").write_bytes(hostile.png_of_zeros(20_000))
    (folder / "slow.jpg").write_bytes(hostile.jpeg_of_scans(9900, 9900, 90))
    (folder / "scan.dcm").write_bytes(hostile.dicom(PatientName=MARKER, PatientID=MARKER))
    options = {"CBIR_INDEX_DECODE_SECONDS": "2"}
    reports = tmp_path / "here.csv", tmp_path / "there.csv"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in options.items():
            patch.setenv(name, value)
        here = index(folder, tmp_path / "here", "--report", reports[0], code=3)
        there = index(folder, tmp_path / "there", "--ray", two_nodes.address, "--report", reports[1], code=3)
        again = index(folder, tmp_path / "there", "--ray", two_nodes.address, code=3)
    for name in ("files", "indexed", "refused", "duplicates", "examples"):
        assert here[name] == there[name], name
    assert here["refused"] == 3
    assert reports[0].read_text() == reports[1].read_text()
    assert "takes longer" in reports[1].read_text()
    assert content(tmp_path / "here") == content(tmp_path / "there")
    logs = [path.read_text(errors="replace") for path in two_nodes.folder.rglob("*") if path.is_file()]
    assert any("NodeWorker" in text for text in logs)
    for secret in (MARKER, str(folder), "scan.dcm"):
        assert not any(secret in text for text in logs)
    assert (again["indexed"], again["already"], again["duplicates"]) == (0, here["indexed"], 1)


def test_what_a_killed_worker_worked_on_is_described_again(two_nodes: TwoNodes, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "images", 600)
    with started(folder, tmp_path / "collection", two_nodes.address) as process:
        wait_for_images(process)
        (worker, *_) = [found for found in psutil.process_iter() if _is_worker(found)]
        worker.kill()
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert (json.loads(output)["indexed"], json.loads(output)["refused"]) == (600, 0)


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any(word.startswith("ray::NodeWorker") for word in process.cmdline()[:1])
    except psutil.Error:
        return False


def test_an_interrupt_ends_in_order_and_the_run_goes_on(two_nodes: TwoNodes, tmp_path: Path) -> None:
    folder, place = pictures(tmp_path / "images", 600), tmp_path / "collection"
    with started(folder, place, two_nodes.address) as process:
        wait_for_images(process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    first = json.loads(output)
    assert 0 < first["indexed"] < 600
    with Collection(place) as collection:
        assert len(collection) == first["indexed"]
    second = index(folder, place, "--ray", two_nodes.address)
    assert (second["indexed"], second["already"]) == (600 - first["indexed"], first["indexed"])


def test_an_archive(two_nodes: TwoNodes, tmp_path: Path) -> None:
    place = tmp_path / "collection"
    with serving(SmallArchive(list(slices(5, 32)))) as url:
        command = ("index", "dicomweb", url, "--collection", place, "--ray", two_nodes.address)
        printed, _ = call(*command, "--profile", "huang2012", "--format", "json")
    assert json.loads(printed)["stored"] == 5
    assert len(instances_in(place)) == 5


def test_files_that_kill_processes_and_files_that_nodes_do_not_see(
    two_nodes: TwoNodes, tmp_path: Path
) -> None:
    """The first are refused alone; this machine sends the others."""
    folder = pictures(tmp_path / "images", 6)
    picture(folder / KILLER, 100)
    for seed in range(3):
        picture(folder / f"{UNSEEN}{seed}.png", 200 + seed)
    summary = index(folder, tmp_path / "collection", "--ray", two_nodes.address, code=3)
    assert (summary["indexed"], summary["refused"]) == (9, 1)
    ((path, reason),) = summary["examples"]
    assert path.endswith(KILLER)
    assert "crashed" in reason
    index(folder, tmp_path / "other")
    here = [row for row in content(tmp_path / "other") if not row[1].endswith(KILLER)]
    assert content(tmp_path / "collection") == here


def test_objects_that_nodes_have_no_keys_for(two_nodes: TwoNodes, tmp_path: Path) -> None:
    pytest.importorskip("moto")
    with serve_bucket() as store:
        for seed in range(3):
            store.pipe(f"images/{seed}.png", picture(tmp_path / f"{seed}.png", seed).read_bytes())
        summary = index("s3://images", tmp_path / "collection", "--ray", two_nodes.address)
    assert (summary["indexed"], summary["refused"]) == (3, 0)


def test_files_are_read_a_bounded_number_ahead(two_nodes: TwoNodes, tmp_path: Path) -> None:
    path, task = (
        picture(tmp_path / "one.png", 1),
        FileTask(DescribeTask(profiles.get("tamura"), bytes(32), Limits())),
    )
    taken = yielded = lead = 0

    def paths() -> Iterator[Path]:
        nonlocal taken
        for _ in range(40 * CHUNK):
            taken += 1
            yield path

    with connect_ray(two_nodes.address, None), RayFilePool(task, None, lambda nodes, processes: None) as pool:
        assert pool.jobs == 2
        for _, described in describe_in(pool, paths(), task):
            assert described.refused is None
            yielded += 1
            lead = max(lead, taken - yielded)
    assert yielded == 40 * CHUNK
    assert lead <= AHEAD * 2 * CHUNK


def test_another_version_is_one_line(
    two_nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cbir.__version__", "0.1")
    folder = pictures(tmp_path / "images", 1)
    command = ("index", folder, "--collection", tmp_path / "collection", "--profile", "tamura")
    _, errors = call(*command, "--ray", two_nodes.address, code=2)
    assert "this machine cbir 0.1" in errors
    assert "install the same everywhere" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("nonsense", "write auto, local, HOST:PORT"),
        ("http://127.0.0.1:6379", "write auto, local, HOST:PORT"),
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
        ("ray://127.0.0.1:1", "no Ray cluster answers at ray://127.0.0.1:1"),
    ],
)
def test_wrong_addresses_are_one_line(address: str, reason: str, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "images", 1)
    _, errors = call("index", folder, "--collection", tmp_path / "none", "--ray", address, code=2)
    assert reason in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "none").exists()


def test_a_cluster_made_on_the_spot_listens_on_loopback_and_ends(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "images", 600)
    with started(folder, tmp_path / "collection", "local") as process:
        wait_for_images(process)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        listening = {
            found.laddr.ip
            for member in family
            for found in member.net_connections()
            if found.status == psutil.CONN_LISTEN
        }
        assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        assert listening
        output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert json.loads(output)["indexed"] == 600
    assert psutil.wait_procs(family, timeout=20)[1] == []


def test_a_lost_node_is_replaced_by_the_others(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """And one that joins is used: last, since it kills a node."""
    folder, place = pictures(tmp_path / "images", 600), tmp_path / "collection"
    with started(folder, place, two_nodes.address) as process:
        wait_for_images(process)
        two_nodes.tell("kill")
        output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert (json.loads(output)["indexed"], json.loads(output)["refused"]) == (600, 0)
    two_nodes.tell("add")
