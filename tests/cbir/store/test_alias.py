"""Aliases: a file that names the folder of a collection."""

import json
import os
from pathlib import Path

import pytest

from cbir.errors import InvalidInput, NotFound
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.collection_address import list_aliases, public_name, resolve_alias, write_alias
from cbir.store.upkeep.restore import open_or_fallback
from tests.indexer.commands import call


@pytest.fixture
def alias(tmp_path: Path) -> Path:
    """An alias of the first of two collections, of different profiles."""
    for name, profile in (("first", "tamura"), ("second", "color_layout")):
        Collection.create(tmp_path / name, profiles.get(profile)).close()
    write_alias(tmp_path / "chest.alias", tmp_path / "first")
    return tmp_path / "chest.alias"


def test_an_alias_opens_what_it_names_now(alias):
    with Collection(alias) as collection, open_or_fallback(alias) as other:
        assert collection.profile.name == other.profile.name == "tamura"
        assert collection.folder == other.folder == alias.with_name("first").resolve()
    write_alias(alias, alias.with_name("second"))
    with Collection(alias) as collection:
        assert collection.profile.name == "color_layout"
    assert json.loads(alias.read_text()) == {"folder": "second"}
    assert (public_name(alias), public_name(alias.with_name("first"))) == ("chest", "first")
    assert resolve_alias(alias.with_name("first")) == alias.with_name("first")


def test_an_alias_leads_nowhere_else(alias, tmp_path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    Collection.create(elsewhere / "secret", profiles.get("tamura")).close()
    (tmp_path / "link").symlink_to(elsewhere / "secret")
    (tmp_path / "sub").mkdir()
    names = [
        "..",
        ".",
        "",
        "../first",
        "sub/deep",
        str(elsewhere / "secret"),
        "link",
        "chest.alias",
        "a\0b",
        "C:x",
    ]
    for name in names:
        alias.write_text(json.dumps({"folder": name}))
        with pytest.raises(InvalidInput, match=r"chest\.alias"):
            Collection(alias)
    for content in ("", "[]", "{}", '{"folder": 1}', "first", "[" * 100_000, "\x00"):
        alias.write_text(content)
        with pytest.raises(InvalidInput, match=r"chest\.alias"):
            resolve_alias(alias)
    alias.write_text('{"folder": "gone"}')
    with pytest.raises(NotFound, match="no such folder beside it"):
        resolve_alias(alias)
    for folder in (elsewhere / "secret", tmp_path / "link"):
        with pytest.raises(InvalidInput, match="beside"):
            write_alias(alias, folder)
    with pytest.raises(InvalidInput, match=r"ends with \.alias"):
        write_alias(tmp_path / "chest", tmp_path / "first")
    with pytest.raises(NotFound, match="there is no alias"):
        resolve_alias(tmp_path / "other.alias")


def test_a_link_of_the_folder_of_the_alias_does_no_harm(alias, tmp_path, monkeypatch):
    (tmp_path / "srv").symlink_to(tmp_path)
    write_alias(tmp_path / "srv" / "chest.alias", tmp_path / "second")
    with Collection(tmp_path / "srv" / "chest.alias") as collection:
        assert collection.profile.name == "color_layout"
    monkeypatch.chdir(tmp_path)
    write_alias(Path("chest.alias"), Path("first"))
    assert resolve_alias(Path("chest.alias")) == tmp_path.resolve() / "first"


def test_the_command_switches_shows_and_lists(alias, tmp_path):
    def run(*words: object) -> dict[str, str]:
        return dict(json.loads(call("collection", "alias", *words, "--format", "json")[0]))

    assert run(alias)["folder"] == str(tmp_path.resolve() / "first")
    assert run(alias, tmp_path / "second")["folder"] == str(tmp_path.resolve() / "second")
    (tmp_path / "broken.alias").write_text("?")
    listed = run(tmp_path)
    assert listed["chest.alias"] == "second"
    assert "cannot be read" in listed["broken.alias"]
    assert list_aliases(tmp_path) == listed
    info = json.loads(call("collection", "info", "--collection", alias, "--format", "json")[0])
    assert (info["folder"], info["profile"]) == (str(tmp_path.resolve() / "second"), "color_layout")
    _, error = call("collection", "alias", alias, tmp_path / "gone", code=2)
    assert "there is no collection" in error
    (tmp_path / "empty").mkdir()
    call("collection", "alias", alias, tmp_path / "empty", code=2)
    assert run(alias)["folder"] == str(tmp_path.resolve() / "second")


def test_an_alias_is_no_folder_to_create(tmp_path):
    with pytest.raises(InvalidInput, match="there is no alias"):
        Collection.create(tmp_path / "new.alias", profiles.get("tamura"))
    assert os.listdir(tmp_path) == []
