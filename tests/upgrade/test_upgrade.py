"""Files of an earlier version are searched and extended; a version that is too old refuses them in one line."""

import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import cv2
import numpy as np
import pytest

import cbir
from cbir.api.main import main
from cbir.store import Collection
from cbir.store.base.schema import FORMAT
from cbir.store.base.statements import row_checksum
from cbir.store.upkeep.verify import verify_collection
from service.access.token_stores import Scope, TokenStore

ARCHIVES = sorted(Path(__file__).parent.glob("*.zip"))  # make_archive.py writes them
PROFILES = ("tamura", "lite0")
METHODS = ("none", "auto", "eprf")


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda archive: archive.stem)
def unpacked(request, tmp_path_factory):
    """Folder with the files of an earlier version, to be read only."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(folder)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


@pytest.fixture
def earlier(unpacked, tmp_path):
    """A copy of it."""
    return shutil.copytree(unpacked, tmp_path / "earlier")


def test_there_is_an_archive_of_the_last_version():
    assert [archive.stem for archive in ARCHIVES] == ["0.1.0"]


@pytest.mark.parametrize("profile", PROFILES)
def test_answers_are_the_same(unpacked, profile):
    expected = json.loads((unpacked / "answers.json").read_text())[profile]
    assert [answer["rerank"] for answer in expected] == [method for method in METHODS for _ in range(2)]
    with cbir.open(unpacked / profile) as opened:
        for answer in expected:
            query = answer["query"]
            hits = opened.search(
                query if query.startswith("id:") else unpacked / query, k=8, rerank=answer["rerank"]
            )
            assert [hit.image_id for hit in hits] == [image_id for image_id, _, _ in answer["hits"]]
            for hit, (_, distance, score) in zip(hits, answer["hits"], strict=True):
                assert hit.distance == pytest.approx(distance, rel=1e-4)
                assert hit.score == pytest.approx(score, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_more_is_indexed(earlier, profile):
    new = earlier / "new"
    new.mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (48, 64), dtype=np.uint8)
        cv2.imwrite(str(new / f"{number}.png"), pixels)
    with Collection(earlier / profile) as opened:
        before, settings = len(opened), opened.profile
        assert verify_collection(opened) == []
    cbir.index(new, earlier / profile)
    with Collection(earlier / profile) as opened:
        assert len(opened) == before + 3
        assert opened.profile == settings
        assert verify_collection(opened) == []
    with cbir.open(earlier / profile) as opened:
        hits = opened.search(new / "1.png", k=2, rerank="none")  # the query itself is left out
        assert {Path(hit.source) for hit in hits} == {new / "0.png", new / "2.png"}


def test_tokens_are_kept(unpacked):
    (token,) = TokenStore(unpacked / "state").all().values()
    assert (token.name, token.state, token.scopes) == ("kept", "valid", (Scope.search,))


@pytest.mark.parametrize("command", [["collection", "info"], ["search", "query.png"], ["index", "query.png"]])
def test_an_older_program_refuses_a_newer_collection_in_one_line(earlier, command, capsys, monkeypatch):
    with closing(sqlite3.connect(earlier / "tamura" / "collection.sqlite")) as connection:
        newer = FORMAT + 1
        connection.execute(
            "UPDATE meta SET value = ?, checksum = ? WHERE key = 'format'",
            (str(newer), row_checksum(b"format", b"%d" % newer)),
        )
        connection.commit()
    files = {path: path.read_bytes() for path in (earlier / "tamura").rglob("*") if path.is_file()}
    monkeypatch.chdir(earlier)
    monkeypatch.setattr("sys.argv", ["cbir", *command, "--collection", "tamura"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"tamura has storage format {newer}, this program reads {FORMAT}" in line
    assert "a newer cbir wrote it: upgrade this one" in line
    assert {path: path.read_bytes() for path in files} == files
