"""What a service and a worker do when a database server is down while they start."""

from pathlib import Path

import pytest

from cbir import settings
from cbir.errors import DatabaseUnavailable, NotFound
from cbir.store.postgresql.postgresql_address import files_folder
from service.state import server_answers
from service.state.schema import StateUnavailable
from tests.postgresql_server import PostgresqlServer

NOBODY = "postgresql+psycopg://cbir:s3cret@127.0.0.1:1/hospital"


def load(url: str | None) -> settings.Settings:
    return settings.load(state_database=url)


def test_it_waits_with_one_line_until_the_server_answers(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database, opened = server_answers.open_state, []

    def open_down_twice(active: settings.Settings) -> object:
        opened.append(database(load(NOBODY)))
        return opened[0]

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        opened[0]._down_until = 0.0
        if len(pauses) == 2:  # the server is there
            opened[0].__dict__.update(database(load(postgresql.new_schema())).__dict__)

    pauses: list[float] = []
    monkeypatch.setattr(server_answers, "open_state", open_down_twice)
    server_answers.wait_for_state(load(NOBODY), pause)
    assert pauses == [2.0, 2.0]
    (line,) = capsys.readouterr().err.splitlines()
    assert "waiting: state_database postgresql+psycopg://cbir:***@127.0.0.1:1/hospital cannot be used" in line
    assert "Connection refused" in line
    assert line.endswith("trying again every 2 seconds")


def test_it_does_not_wait_for_what_only_an_operator_can_mend(postgresql: PostgresqlServer) -> None:
    url = f"postgresql+psycopg://postgres@/nowhere?host={postgresql.folder}"
    with pytest.raises(StateUnavailable, match="does not exist"):
        server_answers.wait_for_state(load(url), lambda _: pytest.fail("it waits"))


def test_a_state_database_in_the_state_folder_needs_no_waiting() -> None:
    server_answers.wait_for_state(load(None), lambda _: pytest.fail("it waits"))


def test_a_collection_whose_server_is_down_is_opened_later(
    indexed: Path, postgresql: PostgresqlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checked: list[Path] = []
    down = files_folder(NOBODY)
    server_answers.check_collections([down, indexed], lambda folder, _: checked.append(folder))
    assert checked == [indexed]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "starting without it: the collection postgresql+psycopg://cbir@127.0.0.1:1/hospital"
    )
    assert "s3cret" not in line
    with pytest.raises(DatabaseUnavailable, match="does not exist"):
        server_answers.check_collections(
            [files_folder(f"postgresql+psycopg://postgres@/nowhere?host={postgresql.folder}")],
            lambda *_: None,
        )
    with pytest.raises(NotFound):
        server_answers.check_collections([tmp_path / "nothing"], lambda *_: None)
