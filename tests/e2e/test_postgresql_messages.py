"""What a real PostgreSQL server refuses, each in one line with the remedy."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgresql_server import USER, PostgresqlServer, missing_reason
from tests.service.conftest import refusal


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    """A server that asks the role `limited` for its password, and grants it nothing."""
    if reason := missing_reason():
        pytest.skip(reason)
    running = PostgresqlServer()
    try:
        rules = running.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all limited scram-sha-256\n{rules.read_text()}")
        for statement in ("CREATE ROLE limited LOGIN PASSWORD 's3cret'", "SELECT pg_reload_conf()"):
            program = [running.programs / "psql", "-h", running.folder, "-U", USER, "-c", statement]
            subprocess.run(program, check=True, capture_output=True, timeout=400)
        yield running
    finally:
        running.stop()


def said(address: str) -> str:
    line = refusal("index", ".", "--collection", address, "--profile", "huang2012")
    assert "s3cret" not in line
    assert "wrong" not in line
    return line


def test_refusals_of_the_server(
    server: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.new_address()
    limited = address.replace(f"//{USER}@", "//limited@")
    assert "database absent does not exist" in said(address.replace("/postgres?", "/absent?")).replace(
        '"', ""
    )
    assert "create the database" in said(address.replace("/postgres?", "/absent?"))
    assert "create the role" in said(address.replace(f"//{USER}@", "//absent@"))
    assert "collection_password_file" in said(limited)
    assert "correct the password" in said(limited.replace("limited@", "limited:wrong@"))
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    monkeypatch.setenv("CBIR_COLLECTION_PASSWORD_FILE", str(file))
    monkeypatch.delenv("CBIR_COLLECTION_PASSWORDS", raising=False)
    assert "permission denied for database" in said(limited)
    assert "give the user the rights" in said(limited)
    monkeypatch.setenv("CBIR_COLLECTION_PASSWORD_FILE", str(tmp_path / "absent"))
    assert "cannot be read" in said(limited)


def test_the_schema_of_another_program_is_refused(server: PostgresqlServer) -> None:
    program = [server.programs / "psql", "-h", server.folder, "-U", USER, "-c"]
    statement = "CREATE SCHEMA other CREATE TABLE saved_cases (number integer)"
    subprocess.run([*program, statement], check=True, capture_output=True, timeout=400)
    assert "other tables" in said(f"{server.url}&collection=other")
