"""Indexing from an object store, with a server of its interface on loopback."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from cbir import settings
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Limits
from cbir.ingest import object_store
from cbir.ingest.decoder_tasks import render_choice
from cbir.ingest.description import DescribeTask, Refusal
from cbir.ingest.object_store import (
    ObjectStoreFailed,
    StoredObject,
    check_object_url,
    find_objects,
    read_images_at,
    read_object,
    read_url,
)
from cbir.store import Collection
from cbir.store.base import profile as profiles
from indexer.describe_files import FileTask, describe_files
from service.collections.image_sources import Decoders, decode_source
from service.http.problems import SourceGone
from tests.indexer.commands import call, index
from tests.indexer.conftest import picture
from tests.indexer.dicomweb import archive_proxy
from tests.object_store import SECRET, serve_bucket

pytestmark = pytest.mark.slow
TAMURA = ("--profile", "tamura")


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    with serve_bucket() as files:
        yield files


@pytest.fixture
def prefix(store: Any, tmp_path: Path) -> Iterator[str]:
    """Five pictures below a prefix, and things that are none."""
    name = f"images/{tmp_path.name}"
    for seed in range(5):
        store.pipe(
            f"{name}/{'ab'[seed % 2]}/{seed}.png", picture(tmp_path / f"{seed}.png", seed).read_bytes()
        )
    store.pipe(f"{name}/notes.txt", b"no picture")
    store.pipe(f"{name}/.hidden/0.png", b"no picture")
    store.pipe(f"{name}-2/9.png", picture(tmp_path / "9.png", 9).read_bytes())
    yield f"s3://{name}"
    store.rm(name, recursive=True)


def sources(place: Path) -> list[str]:
    with Collection(place) as collection:
        return [record.source for _, record in collection.iterate()]


def test_a_prefix_without_images_is_no_success(prefix: str, store: Any, tmp_path: Path) -> None:
    name = prefix.removeprefix("s3://")
    store.pipe(f"{name}/text/notes.txt", b"no picture")
    store.pipe(f"{name}/text/.hidden/0.png", b"no picture")
    place = tmp_path / "collection"
    told = call("index", prefix, f"{prefix}/text", "--collection", place, *TAMURA, code=2)[1]
    assert f"{prefix}/text has no images" in told
    assert not place.exists()


def test_the_same_as_from_a_folder(prefix: str, tmp_path: Path) -> None:
    place = tmp_path / "collection"
    assert index(prefix, place, *TAMURA)["indexed"] == 5
    assert sources(place) == [f"{prefix}/{name}.png" for name in ("a/0", "a/2", "a/4", "b/1", "b/3")]
    folder = tmp_path / "local"
    for seed in range(5):
        picture(folder / f"{'ab'[seed % 2]}/{seed}.png", seed)
    index(folder, tmp_path / "other", *TAMURA)
    with Collection(place) as remote, Collection(tmp_path / "other") as local:
        ids = [record.image_id for _, record in remote.iterate()]
        assert ids == [record.image_id for _, record in local.iterate()]
        assert [remote.stored_vector(name) for name in ids] == [local.stored_vector(name) for name in ids]
    check_other_profile(place, tmp_path / "new")
    check_shown(place, f"{prefix}/none.png")


def check_other_profile(place: Path, new: Path) -> None:
    options = ("--profile", "huang2012", "--jobs", 1)
    call("collection", "redescribe", new, "--collection", place, *options)
    assert sources(new) == sources(place)


def check_shown(place: Path, gone: str) -> None:
    """In the service, and in reports."""
    render, decoders = partial(render_choice, side=32), Decoders(settings.load())
    with Collection(place) as collection, Flask("test").test_request_context():
        _, record = next(collection.iterate())
        assert decode_source(decoders, collection, record, render).width == 40
        with pytest.raises(SourceGone, match="is gone"):
            decode_source(decoders, collection, replace(record, source=gone), render)
    (image,) = read_images_at(record.source, Limits())
    assert image.pixels.shape[:2] == (40, 40)


def test_changed_moved_and_unchanged_objects(prefix: str, store: Any, tmp_path: Path) -> None:
    """And their labels, which come from an object and from a file."""
    place, name = tmp_path / "collection", prefix.removeprefix("s3://")
    store.pipe(f"{name}/labels.csv", b"path,label\na/0.png,chest\nb/1.png,hand\n../b/1.png,foot\n")
    index(prefix, place, *TAMURA, "--labels", f"{prefix}/labels.csv")
    labels = {f"{prefix}/a/0.png": "chest", f"{prefix}/b/1.png": "hand", f"{prefix}/a/2.png": None}
    assert labels_of(place).items() >= labels.items()
    (tmp_path / "labels.csv").write_text(f"path,label\n{prefix}/a/2.png,knee\n")
    again = index(prefix, place, "--labels", tmp_path / "labels.csv")
    assert (again["indexed"], again["already"], again["relabelled"]) == (0, 5, 1)
    assert labels_of(place)[f"{prefix}/a/2.png"] == "knee"
    store.pipe(f"{name}/a/0.png", picture(tmp_path / "new.png", 77).read_bytes())
    store.mv(f"{name}/b/3.png", f"{name}/c/3.png")
    changed = index(prefix, place)
    assert (changed["indexed"], changed["already"], changed["duplicates"]) == (1, 3, 1)
    assert f"{prefix}/c/3.png" in sources(place)
    assert f"{prefix}/b/3.png" not in sources(place)
    (tmp_path / "labels.csv").write_text("path,label\ns3://images/elsewhere/0.png,chest\n")
    options = ("--collection", place, "--labels", tmp_path / "labels.csv")
    assert "names a file" in call("index", prefix, *options, code=2)[1]


def labels_of(place: Path) -> dict[str, str | None]:
    with Collection(place) as collection:
        return {record.source: record.labels.get("label") for _, record in collection.iterate()}


def test_damaged_and_large_objects_are_refused(prefix: str, store: Any, tmp_path: Path) -> None:
    name = prefix.removeprefix("s3://")
    store.pipe(f"{name}/broken.png", b"\x89PNG\r\n\x1a\n....")
    store.pipe(f"{name}/empty.png", b"")
    summary = index(prefix, tmp_path / "collection", *TAMURA, code=3)
    assert (summary["indexed"], summary["refused"]) == (5, 2)
    reasons = "".join(reason for _, reason in summary["examples"])
    assert "empty.png is empty" in reasons
    with pytest.raises(UnreadableImage, match="at most 10 are read"):
        read_url(f"{prefix}/a/0.png", Limits(bytes=10))
    with pytest.raises(UnreadableImage, match="changed while it was read"):
        read_object(StoredObject(f"{prefix}/a/0.png", 3, "3-x"), Limits())
    with pytest.raises(UnreadableImage, match="gone"):
        read_object(StoredObject(f"{prefix}/none.png", 3, "3-x"), Limits())


def test_a_page_at_a_time(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "PAGE", 4)
    for number in range(9):
        store.pipe(f"images/many/{number:04d}.png", b"x")
    found = find_objects("s3://images/many")
    assert next(found).name == "0000.png"
    assert [stored.name for stored in found] == [f"{number:04d}.png" for number in range(1, 9)]
    (single,) = find_objects("s3://images/many/0007.png")
    assert single.size == 1


def test_names(store: Any) -> None:
    """What a name holds is taken as it is; a name that s3fs takes for another object is refused."""
    names = {
        "a b.png",
        "h#.png",
        "q?x=1.png",
        "ü.png",
        "%20.png",
        "*[a].png",
        "p//d.png",
        "a::b.png",
        "image",
    }
    content = b"\x89PNG\r\n\x1a\n"
    other, version = "v.png", "v.png?versionId=1.png"
    skipped = {"text", "p/../up.png", ".hidden/a.png", "folder.dcm/"}
    for name in names | skipped | {other, version}:
        body = {"text": b"text", "folder.dcm/": b"", other: b"another"}.get(name, content)
        store.call_s3("put_object", Bucket="images", Key=f"names/{name}", Body=body)
    found = {
        stored.url.removeprefix("s3://images/names/"): stored for stored in find_objects("s3://images/names")
    }
    assert set(found) == names | {other, version}
    assert {read_object(found[name], Limits()) for name in names} == {content}
    for read in (
        lambda: read_object(found[version], Limits()),
        lambda: read_url(found[version].url, Limits()),
    ):
        with pytest.raises(UnreadableImage, match="names a version; rename"):
            read()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("s3://images/nothing-here", "there is no object"),
        ("s3://no-such-bucket/x", "there is no object"),
        ("s3://KEY:SECRET@images/x", "keys come from the environment"),
        ("s3://", "BUCKET/PREFIX"),
        ("https://images.example/x", "is not read"),
        ("gs://images/x", "gs:// needs gcsfs: pip install gcsfs"),
    ],
)
def test_wrong_addresses_are_one_line(store: Any, source: str, reason: str, tmp_path: Path) -> None:
    printed, errors = call("index", source, "--collection", tmp_path / "none", code=2)
    assert reason in errors
    assert len(errors.splitlines()) == 1
    assert "SECRET" not in printed + errors
    assert not (tmp_path / "none").exists()


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, prefix: str, tmp_path: Path) -> None:
    """What came before is kept, and objects after the first are not tried."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    object_store._file_system_of.cache_clear()
    objects = [StoredObject(f"{prefix}/a/{number}.png", 9, "9-x") for number in range(2)]
    task = FileTask(DescribeTask(profiles.get("tamura"), bytes(32), Limits()))
    first, second = describe_files(objects, task)
    assert first.refusal is Refusal.store_silent
    assert second is first, "it was tried too"
    path = picture(tmp_path / "images/0.png", 1)
    monkeypatch.setattr("indexer.index_run.find_sources", lambda request: iter([path, *objects]))
    place = tmp_path / "collection"
    _, errors = call("index", path, "--collection", place, "--jobs", 1, *TAMURA, code=2)
    assert "run the command again to continue" in errors
    assert sources(place) == [str(path)]
    with pytest.raises(ObjectStoreFailed, match="does not answer as it should") as caught:
        read_url(f"{prefix}/a/0.png", Limits())
    assert SECRET not in str(caught.value)
    object_store._file_system_of.cache_clear()


def test_an_object_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, prefix: str, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rules, report, place = tmp_path / "rules.json", tmp_path / "report.csv", tmp_path / "collection"
    rules.write_text(json.dumps({"/a/2.png": 500}))
    command = [sys.executable, archive_proxy.__file__, str(port), os.environ["AWS_ENDPOINT_URL"], str(rules)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        object_store._file_system_of.cache_clear()
        try:
            summary = index(prefix, place, "--report", report, *TAMURA, code=3)
        finally:
            proxy.kill()
            object_store._file_system_of.cache_clear()
    assert (summary["indexed"], summary["refused"]) == (4, 1)
    assert 'a/2.png,"it is not delivered, though the store answers' in report.read_text()


def test_addresses() -> None:
    assert check_object_url("s3://bucket/scans/") == "s3://bucket/scans"
    with pytest.raises(InvalidInput, match="BUCKET/PREFIX"):
        check_object_url("s3://")
