"""`cbir collection redescribe` carries over which requests were answered, so that none is carried out twice."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from cbir.images import Limits
from cbir.ingest.decoder_tasks import describe_bytes
from cbir.ingest.description import DescribeTask
from cbir.ingest.intake_check import ReceivedFile, add_received_files
from cbir.store import Collection
from cbir.store.base.schema import replies as stored
from cbir.store.records import originals
from cbir.store.records.add_transaction import StoredReply
from cbir.store.records.records import hash_patient
from tests.indexer.commands import call
from tests.indexer.conftest import picture

pytestmark = pytest.mark.slow

PATIENT = "P1"


def send(folder: Path, path: Path, key: str, keep: bool = True) -> None:
    """Add a picture as the service does for a request with an idempotency key."""
    with Collection(folder) as collection, collection.writer() as writer:
        data = path.read_bytes()
        task = DescribeTask(collection.profile, collection.secret, Limits())
        described = describe_bytes(data, path.name, originals.source_of(data), task, True)
        added = add_received_files(
            writer,
            [ReceivedFile(data, described)],
            keep_originals=keep,
            in_transaction=lambda transaction, added: transaction.store_reply(
                key, StoredReply("request", 201, json.dumps(added.ids))
            ),
        )
        if key == "of a patient":
            source = collection.record(added.ids[0]).source
            writer.relabel(source, {}, hash_patient(collection.secret, PATIENT))


def redescribe(old: Path, new: Path, code: int = 0) -> dict[str, Any]:
    """Run the command to the profile tamura; its summary."""
    options = ("--collection", old, "--profile", "tamura", "--jobs", 1, "--format", "json")
    return dict(json.loads(call("collection", "redescribe", new, *options, code=code)[0]))


def replies(folder: Path, *keys: str) -> list[StoredReply | None]:
    """The replies stored under some keys."""
    with Collection(folder) as collection:
        return [collection.find_reply(key) for key in keys]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A collection of four pictures that were sent; `no file`: one whose original was not kept."""
    folder = tmp_path / "old"
    call("index", picture(tmp_path / "images" / "0.png", 0), "--collection", folder, "--profile", "huang2012")
    for seed, key in enumerate(("first", "of a patient", "no file"), 1):
        send(folder, picture(tmp_path / f"{seed}.png", seed), key, keep=key != "no file")
    return folder


def test_answered_requests_are_carried_over(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert redescribe(old, new, code=3)["refused"] == 1
    first, absent = replies(old, "first", "no file")
    assert first is not None
    assert absent is not None
    assert replies(new, "first", "no file") == [first, None]  # the second request can add its image there
    send(old, picture(tmp_path / "4.png", 4), "later")
    redescribe(old, new, code=3)
    assert replies(new, "first", "later") == replies(old, "first", "later")


def test_replies_that_name_an_erased_patient_do_not_survive(old: Path, tmp_path: Path) -> None:
    new, both = tmp_path / "new", ("first", "of a patient")
    redescribe(old, new, code=3)
    first, of_patient = replies(old, *both)
    assert replies(new, *both) == [first, of_patient]
    shutil.copytree(old, tmp_path / "other")
    for folder in (new, tmp_path / "other"):
        with Collection(folder) as collection, collection.writer() as writer:
            key = hash_patient(collection.secret, PATIENT)
            assert key
            assert writer.erase_patient([key]) == 1
    redescribe(old, new, code=3)  # erased in the target alone
    assert replies(new, *both) == [first, None]
    shutil.rmtree(old)
    (tmp_path / "other").rename(old)
    redescribe(old, new, code=3)
    assert replies(new, *both) == [first, None]


def test_an_erasure_in_the_source_reaches_replies_that_came_over(old: Path, tmp_path: Path) -> None:
    new, both = tmp_path / "new", ("first", "of a patient")
    redescribe(old, new, code=3)
    with Collection(old) as collection, collection.writer() as writer:
        key = hash_patient(collection.secret, PATIENT)
        assert key
        assert writer.erase_patient([key]) == 1
    redescribe(old, new, code=3)
    assert replies(new, *both) == [replies(old, "first")[0], None]


def test_a_key_used_again_after_a_day_replaces_the_reply_that_came_over(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    redescribe(old, new, code=3)
    with Collection(new) as collection, collection._engine.begin() as connection:
        connection.execute(update(stored).values(at=0))
    redescribe(old, new, code=3)
    assert replies(new, "first") == replies(old, "first") != [None]
