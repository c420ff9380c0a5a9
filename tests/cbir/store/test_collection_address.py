"""Collections named by an address: on the command line and from Python, without a server."""

from importlib.util import find_spec
from pathlib import Path

import pytest

import cbir
from cbir.errors import DatabaseUnavailable, InvalidInput
from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.system.addresses import collection_name, is_collection_address, validate_collection_address
from tests.service.conftest import refusal

ADDRESS = "postgresql+psycopg://cbir@127.0.0.1:1/hospital?collection=chest"  # where no server is


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("s3://bucket/collection", "not the URL of a PostgreSQL database"),
        ("postgresql://u:s3cret@host/db", "not the URL of a PostgreSQL database"),
        ("postgresql+psycopg://u:s3cret@host/", "not the URL of a PostgreSQL database"),
        ("postgresql+psycopg://u:s3cret@host:port/db", "not a URL"),
        ("postgresql+psycopg://u:s3cret@/db", "no host"),
        ("postgresql+psycopg://u@host/db?password=s3cret", "password and options"),
        ("postgresql+psycopg://u:s3cret@host/db?schema=chest", "name the collection with collection=NAME"),
        ("postgresql+psycopg://u:s3cret@host/db?collection=Chest", "collection: at most 63 small letters"),
        ("postgresql+psycopg://u:s3cret@host/db?collection=", "collection: at most 63 small letters"),
        ("postgresql+psycopg://u:s3cret@host/db?collection=x;drop", "collection: at most 63 small letters"),
        ("postgresql+psycopg://u:s3cret@host/db?collection=pg_x", "collection: at most 63 small letters"),
    ],
)
def test_a_wrong_address_is_one_line_without_its_password(address: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        validate_collection_address(address)
    assert "s3cret" not in str(caught.value)
    said = refusal("search", "x.png", "--collection", address)
    assert reason in said
    assert "s3cret" not in said


def test_names() -> None:
    assert collection_name(ADDRESS) == "chest"
    assert collection_name("postgresql+psycopg://u@h/d") == "cbir"
    assert [is_collection_address(text) for text in (ADDRESS, "folder", "C:\\folder", "x.alias")] == [
        True,
        False,
        False,
        False,
    ]


def test_an_address_stands_for_the_folder_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    folder = collection_folder(ADDRESS)
    assert folder.is_relative_to(tmp_path / "files")
    assert address_or_folder(folder) == ADDRESS
    assert collection_folder(tmp_path) == Path(address_or_folder(tmp_path)) == tmp_path
    alias = tmp_path / "x.alias"
    alias.write_text("{}")
    assert address_or_folder(alias) == str(alias)


@pytest.mark.parametrize(
    "arguments",
    [
        ("collection", "info"),
        ("collection", "labels"),
        ("collection", "verify"),
        ("index", "."),
        ("search", "x.png"),
        pytest.param(
            ("annotate", "serve"),
            marks=[
                pytest.mark.features,
                pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed"),
            ],
        ),
        pytest.param(("search", "--study", "1.2.3", "--level", "study"), marks=pytest.mark.features),
    ],
)
def test_without_the_server_one_line_names_it_and_the_remedy(arguments: tuple[str, ...]) -> None:
    said = refusal(*arguments, "--collection", ADDRESS.replace("cbir@", "cbir:s3cret@"))
    assert ADDRESS in said
    assert "start the server, or correct host and port in the address" in said
    assert "s3cret" not in said


def test_from_python() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1"):
        cbir.open(ADDRESS)
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1"):
        cbir.index(".", ADDRESS)
    with pytest.raises(InvalidInput, match="not the URL"):
        cbir.open("mysql://u@h/d")


def test_backups_and_aliases_are_for_folders(tmp_path: Path) -> None:
    assert "aliases lead to folders" in refusal("collection", "alias", tmp_path / "x.alias", ADDRESS)
    assert "cbir collection copy" in refusal("collection", "restore", tmp_path, ADDRESS)
    assert "docs/postgresql.md" in refusal("collection", "verify", "--repair", "--collection", ADDRESS)
