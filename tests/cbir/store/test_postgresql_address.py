"""Addresses of collections in PostgreSQL, without a server."""

import json
import os
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from cbir.errors import CollectionDamaged, DatabaseUnavailable, InvalidInput
from cbir.store.postgresql import postgresql_address
from cbir.store.postgresql.postgresql_address import (
    database_address,
    files_folder,
    find_password,
    read_database_file,
)

ADDRESS = "postgresql+psycopg://reader@db.example.org/images?collection=chest"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    monkeypatch.setenv(postgresql_address.PASSWORDS, "{}")


def test_one_folder_for_each_collection_of_a_server(tmp_path: Path) -> None:
    folder = files_folder(ADDRESS)
    assert folder.parent.parent == tmp_path / "files"
    assert folder.name == "chest"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert files_folder(ADDRESS.replace("reader", "writer")) == folder
    assert files_folder(ADDRESS.replace("chest", "knee")).parent == folder.parent
    assert files_folder(ADDRESS.replace("db.", "db2.")).parent != folder.parent
    assert files_folder(ADDRESS.replace("/images", ":5433/images")).parent != folder.parent
    assert files_folder("postgresql+psycopg://u@h/d").name == "cbir"
    assert database_address(tmp_path) is None


def test_password_is_in_no_file(tmp_path: Path) -> None:
    folder = files_folder(ADDRESS.replace("reader", "reader:s3cret%40"))
    assert database_address(folder) == ADDRESS
    assert not any(b"s3cret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert find_password(make_url(ADDRESS)) == "s3cret@"
    assert json.loads(os.environ[postgresql_address.PASSWORDS]) != {}
    assert find_password(make_url(ADDRESS.replace("db.", "db2."))) is None


def test_password_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_COLLECTION_PASSWORD_FILE", str(tmp_path / "password"))
    with pytest.raises(DatabaseUnavailable, match="cannot be read: No such file"):
        find_password(make_url(ADDRESS))
    (tmp_path / "password").write_text(" of the file \n")
    assert find_password(make_url(ADDRESS)) == " of the file "


@pytest.mark.parametrize(
    "text", ["mysql://u:s3cret@h/d", ADDRESS.replace("=chest", "=No"), "postgresql+psycopg://"]
)
def test_refused_addresses_name_no_password(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        files_folder(text)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_collection_id_stays(tmp_path: Path) -> None:
    folder = files_folder(ADDRESS)
    known = postgresql_address.DatabaseFile(address=ADDRESS, collection_id="17")
    postgresql_address.write_database_file(folder, known)
    files_folder(ADDRESS.replace("reader", "writer"))
    stored = read_database_file(folder)
    assert stored
    assert stored.collection_id == "17"
    assert "writer" in stored.address
    (folder / "database.json").write_text("{")
    with pytest.raises(CollectionDamaged, match="name the collection by its address again"):
        database_address(folder)
