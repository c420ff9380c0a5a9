"""`cbir index --ray` on two nodes: the same collection as on one machine, whatever happens to files and nodes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from cbir.store import Collection
from tests import hostile_images as hostile
from tests.indexer.commands import call
from tests.indexer.conftest import picture
from tests.indexer.dicomweb.small_archive import SmallArchive, serving
from tests.indexer.ray_cluster.conftest import ENDLESS, HELD, HOLD, KILLER, SLOW, UNSEEN, TwoNodes
from tests.indexer.receiving import instances_in, slices
from tests.object_store import serve_bucket

pytestmark = pytest.mark.slow
CBIR = (sys.executable, "-m", "cbir.api.main")
MARKER = "MUSTERMANN"


def content(place: Path) -> list[tuple[str, str, str, bytes]]:
    """Ids, sources, stamps and vectors of a collection, in their order."""
    with Collection(place) as collection:
        return [
            (record.image_id, record.source, record.source_stamp, collection.stored_vector(record.image_id))
            for _, record in collection.iterate()
        ]


@contextmanager
def started(folder: Path, place: Path, address: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `cbir index --ray` in a process of its own."""
    command = [*CBIR, "index", str(folder), "--collection", str(place), "--ray", address]
    command += ["--profile", "tamura", "--format", "json", "--progress", "json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: "subprocess.Popen[str]", done: int) -> None:
    """Wait until so many files are in the collection."""
    assert process.stderr
    for line in process.stderr:
        assert line.startswith("{"), line
        if json.loads(line)["done"] >= done:
            return
    raise AssertionError("it has ended")


def pictures(folder: Path, count: int, prefix: str = "") -> Path:
    for seed in range(count):
        picture(folder / f"{prefix}{seed:04d}.png", seed, 40)
    return folder


def hostile_files(folder: Path) -> Path:
    """Pictures, and files that are damaged, take for ever, kill their process, or are not seen by nodes."""
    pictures(folder, 12)
    (folder / "0007.png").write_bytes((folder / "0006.png").read_bytes())  # a duplicate
    (folder / "damaged.png").write_bytes(hostile.png_of_zeros(50)[:60])
    (folder / "bomb.png").write_bytes(hostile.png_of_zeros(20_000))
    (folder / "scan.dcm").write_bytes(hostile.dicom(PatientName=MARKER, PatientID=MARKER))
    for seed in range(3):
        picture(folder / f"{UNSEEN}{seed}.png", 200 + seed)
    for seed, name in enumerate((KILLER, ENDLESS)):
        picture(folder / name, 100 + seed)
    return folder


def test_the_collection_is_the_same_as_from_one_machine(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Also with hostile files, files that nodes do not see, and objects that they have no keys for."""
    folder = hostile_files(tmp_path / "images")
    places = tmp_path / "here", tmp_path / "there"
    reports = tmp_path / "here.csv", tmp_path / "there.csv"
    pytest.importorskip("moto")
    with serve_bucket() as store, pytest.MonkeyPatch.context() as patch:
        for seed in range(300, 303):
            store.pipe(f"images/{seed}.png", picture(tmp_path / f"{seed}.png", seed).read_bytes())
        patch.setenv("CBIR_INDEX_DECODE_SECONDS", "20")
        command = folder, "s3://images"
        there = index_several(command, places[1], "--ray", two_nodes.address, "--report", reports[1])
        for name in (KILLER, ENDLESS):  # nothing is wrong with them here
            (folder / name).unlink()
        here = index_several(command, places[0], "--report", reports[0])
    reasons = dict(line.split(",", 1) for line in reports[1].read_text().splitlines())
    assert "crashed" in reasons.pop(str(folder / KILLER))
    assert "takes longer" in reasons.pop(str(folder / ENDLESS))
    assert reasons == dict(line.split(",", 1) for line in reports[0].read_text().splitlines())
    for name in ("indexed", "duplicates"):
        assert here[name] == there[name], name
    assert (here["refused"], there["refused"]) == (2, 4)
    assert content(places[0]) == content(places[1])
    check_nothing_is_kept(
        two_nodes, (places[1] / "patient.key").read_bytes(), MARKER, str(folder), "scan.dcm"
    )


def index_several(sources: tuple[object, ...], place: Path, *options: object) -> dict[str, Any]:
    """Run `cbir index` with several sources; its summary."""
    command = ("index", *sources, "--collection", place, "--profile", "tamura", "--format", "json", *options)
    return dict(json.loads(call(*command, "--jobs", 1, code=3)[0]))


def check_nothing_is_kept(cluster: TwoNodes, key: bytes, *secrets: str) -> None:
    """Check that neither logs of the cluster nor the table of jobs of its head have a word of these."""
    from ray._private.state import state
    from ray._raylet import GcsClientOptions

    logs = [path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file()]
    assert any(b"NodeWorker" in text for text in logs)
    state._initialize_global_state(GcsClientOptions.create(cluster.address, None, True, False))
    jobs = repr(state.job_table()).encode()
    state.disconnect()
    assert b"is_dead" in jobs.lower() or b"isdead" in jobs.lower()
    for secret in (key, key.hex().encode(), *(text.encode() for text in secrets)):
        assert not any(secret in text for text in (*logs, jobs))


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any(word.startswith("ray::NodeWorker") for word in process.cmdline()[:1])
    except psutil.Error:
        return False


def test_lost_workers_nodes_and_an_interrupt(
    two_nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they worked on is described by others, or by the next run."""
    monkeypatch.setenv("CBIR_INDEX_DECODE_SECONDS", "1000")  # more than those files are held
    count = 512
    folder, place = pictures(tmp_path / "images", count // 2, SLOW), tmp_path / "collection"
    for number, path in enumerate(sorted(pictures(tmp_path / "held", count, "").iterdir())[count // 2 :]):
        path.rename(folder / f"{HELD}{number:03d}.png")  # the second half
    (folder / HOLD).touch()
    with started(folder, place, two_nodes.address) as process:
        wait_for(process, 1)
        (worker, *_) = filter(_is_worker, psutil.Process(two_nodes.process.pid).children(recursive=True))
        worker.kill()
        wait_for(process, 64)
        process.send_signal(signal.SIGTERM)  # the same as SIGINT, which Ray leaves alone
        output, errors = process.communicate(timeout=540)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    first = json.loads(output)
    assert 0 < first["indexed"] < count
    assert first["refused"] == 0
    with Collection(place) as collection:
        assert len(collection) == first["indexed"]
    (folder / HOLD).unlink()
    with started(folder, place, two_nodes.address) as process:
        wait_for(process, first["indexed"] + 1)
        (folder / HOLD).touch()
        two_nodes.tell("kill")
        (folder / HOLD).unlink()
        output, errors = process.communicate(timeout=540)
    assert process.returncode == 0, errors
    second = json.loads(output)
    assert (second["already"], second["refused"]) == (first["indexed"], 0)
    assert second["indexed"] + first["indexed"] == count


def test_an_archive(two_nodes: TwoNodes, tmp_path: Path) -> None:
    place = tmp_path / "collection"
    with serving(SmallArchive(list(slices(5, 32)))) as url:
        command = ("index", "dicomweb", url, "--collection", place, "--ray", two_nodes.address)
        printed, _ = call(*command, "--profile", "tamura", "--format", "json")
    assert json.loads(printed)["stored"] == 5
    assert len(instances_in(place)) == 5


def ray_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_")}


def test_another_version_is_one_line(
    two_nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was changed in this process is undone."""
    from ray._private import utils, worker

    before = ray_environment(), worker.print_to_stdstream, utils.get_entrypoint_name
    monkeypatch.setattr("cbir.__version__", "0.1")
    folder = pictures(tmp_path / "images", 1)
    command = ("index", folder, "--collection", tmp_path / "collection", "--profile", "tamura")
    _, errors = call(*command, "--ray", two_nodes.address, code=2)
    assert "this machine cbir 0.1" in errors
    assert "install the same everywhere" in errors
    assert "Traceback" not in errors
    assert before == (ray_environment(), worker.print_to_stdstream, utils.get_entrypoint_name)


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


def listens_on(process: psutil.Process) -> set[str]:
    """Return the addresses where a process listens, none if it has ended."""
    try:
        found = process.net_connections()
    except psutil.NoSuchProcess:
        return set()
    return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}


def test_a_cluster_made_on_the_spot_listens_on_loopback_and_ends(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "images", 100)
    with started(folder, tmp_path / "collection", "local", "--jobs", "1") as process:
        wait_for(process, 1)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        listening = {address for member in family for address in listens_on(member)}
        assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        assert listening
        output, errors = process.communicate(timeout=540)
    assert process.returncode == 0, errors
    assert json.loads(output)["indexed"] == 100
    assert psutil.wait_procs(family, timeout=120)[1] == []
