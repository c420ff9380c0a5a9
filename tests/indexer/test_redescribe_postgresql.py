"""`cbir collection redescribe` from a folder into PostgreSQL, within it, and back."""

import csv
import json
from pathlib import Path

import pytest

from cbir.store import Collection
from cbir.store.collection_address import collection_folder
from cbir.store.upkeep.verify import verify_collection
from tests.indexer.commands import call, index
from tests.indexer.conftest import picture
from tests.indexer.test_redescribe_replies import replies, send

pytestmark = pytest.mark.slow


def test_images_go_from_a_folder_through_postgresql_and_back(postgresql, tmp_path, monkeypatch):
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    for seed in range(6):
        picture(tmp_path / "images" / f"{seed:02d}.png", seed)
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "report"], ["images/00.png", "long " * 2000]])
    first, second, third, fourth = (
        tmp_path / "old",
        *(postgresql.new_address() for _ in range(2)),
        tmp_path / "new",
    )
    index(tmp_path / "images", first, "--labels", tmp_path / "labels.csv")
    send(first, picture(tmp_path / "sent.png", 9), "key")
    for source, target, profile in (
        (first, second, "tamura"),
        (second, third, "color_layout"),
        (third, fourth, "tamura"),
    ):
        options = ("--collection", source, "--profile", profile, "--jobs", 1, "--format", "json")
        summary = json.loads(call("collection", "redescribe", target, *options)[0])
        assert (summary["described"], summary["refused"]) == (7, 0)
        assert json.loads(call("collection", "redescribe", target, *options)[0])["described"] == 0
        assert replies(collection_folder(target), "key") == replies(first, "key") != [None]
    with Collection(first) as old, Collection(fourth) as new:
        assert verify_collection(new) == []
        assert list(new.iterate()) == list(old.iterate())
        assert new.history() == old.history()
        assert new.secret == old.secret
    assert Path(fourth).is_dir()
    postgresql.drop_schemas([second, third])
