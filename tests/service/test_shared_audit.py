"""The audit log in the state database: one chain for all services, in which every change is found."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select, update

from cbir import settings
from cbir.errors import InvalidInput
from service.access import shared_audit
from service.access.audit_chain import NOT_WRITTEN, ChainHead, chain_line, read_key
from service.access.chain_check import ChainReport
from service.access.security import check_startup, open_audit_log
from service.access.shared_audit import SharedAuditLines, SharedAuditLog
from service.access.token_stores import Scope, SharedTokens
from service.app import create_app
from service.state.audit_lines import chain, lines
from service.state.database import StateDatabase, open_state
from tests.postgresql_server import PostgresqlServer
from tests.service.conftest import command, problem
from tests.service.test_audit import FIELDS

DOWN = "postgresql+psycopg://cbir@127.0.0.1:1/hospital"


@pytest.fixture
def database(postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> StateDatabase:
    monkeypatch.setenv("CBIR_STATE_DATABASE", postgresql.new_schema())
    return open_state(settings.load())


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "audit.key"


@pytest.fixture
def filled(database: StateDatabase, key_file: Path) -> SharedAuditLog:
    """A log of ten lines, written by two services in turn."""
    one, other = (SharedAuditLog(open_state(settings.load()), key_file) for _ in range(2))
    for number in range(5):
        write(one, 1, 2 * number)
        write(other, 1, 2 * number + 1)
    return one


def write(log: SharedAuditLog, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        assert log.write(f"{number:08x}", "203.0.113.9", "search", ["0" * 32], 200)


def verify(database: StateDatabase, key_file: Path, **options: Any) -> ChainReport:
    return SharedAuditLines(database, key_file).verify(**options)


def stored(database: StateDatabase) -> list[str]:
    with database.reading() as connection:
        return list(connection.execute(select(lines.c.line).order_by(lines.c.number)).scalars())


def test_lines_of_all_services_are_one_chain(
    filled: SharedAuditLog, database: StateDatabase, key_file: Path
) -> None:
    report = verify(database, key_file)
    assert (report.lines, report.first, report.faults, report.notes) == (10, 1, [], [])
    assert report.head == SharedAuditLines(database, key_file).head()
    fields = [json.loads(line) for line in stored(database)]
    assert all(list(line) == FIELDS for line in fields)
    assert [line["token"] for line in fields] == [f"{number:08x}" for number in range(10)]
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert read_key(key_file).hex() not in str(stored(database))


@given(data=st.data())
@hypothesis_settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_every_change_is_found(
    filled: SharedAuditLog, database: StateDatabase, key_file: Path, data: st.DataObject
) -> None:
    """What someone without the key can do to the table."""
    kind = data.draw(st.sampled_from(["edit", "remove", "swap", "insert", "renumber", "end"]))
    number, other = data.draw(st.permutations(range(1, 11)))[:2]
    texts = stored(database)
    with database._open().connect() as connection, connection.begin() as transaction:
        row = lines.c.number
        if kind == "edit":
            text = texts[number - 1].replace("203.0.113.9", "203.0.113.8")
            connection.execute(update(lines).where(row == number).values(line=text))
        elif kind == "remove":
            connection.execute(delete(lines).where(row == number))
        elif kind == "swap":
            connection.execute(update(lines).where(row == number).values(line=texts[other - 1]))
            connection.execute(update(lines).where(row == other).values(line=texts[number - 1]))
        elif kind == "insert":
            last = ChainHead(10, json.loads(texts[-1])["mac"])
            forged, head = chain_line(b"x" * 32, last, {"time": "2030-01-01T00:00:00Z", "token": None})
            connection.execute(insert(lines), [{"number": 11, "time": 0, "line": forged.decode().rstrip()}])
            connection.execute(update(chain).values(number=11, mac=head.mac))
        elif kind == "renumber":
            connection.execute(delete(lines).where(row == number))
            connection.execute(update(chain).values(removed=number))
        else:
            connection.execute(delete(lines).where(row >= number))
        schema = connection.exec_driver_sql("SELECT current_schema()").scalar_one()
        report = verify_in(connection, key_file)
        assert report.faults, (kind, number, other, schema)
        transaction.rollback()
    assert verify(database, key_file).faults == []


def verify_in(connection: Any, key_file: Path) -> ChainReport:
    """Check the log as the transaction of a connection sees it."""

    class Reading:
        def reading(self) -> Any:
            class Context:
                def __enter__(self) -> Any:
                    return connection

                def __exit__(self, *_: object) -> None:
                    pass

            return Context()

    return SharedAuditLines(Reading(), key_file).verify()  # type: ignore[arg-type]


def test_a_database_that_was_set_back_is_found(
    filled: SharedAuditLog, database: StateDatabase, key_file: Path
) -> None:
    """Lines and their note are removed: a running service, and a head that was noted elsewhere, tell."""
    noted = SharedAuditLines(database, key_file).head()
    mac = json.loads(stored(database)[6])["mac"]
    with database.writing() as connection:
        connection.execute(delete(lines).where(lines.c.number > 7))
        connection.execute(update(chain).values(number=7, mac=mac))
    assert verify(database, key_file).faults == [], "nothing in the database tells"
    assert verify(database, key_file, known=(noted,)).faults == [
        "the noted line 10 is missing or was changed"
    ]
    write(filled, 1)
    (fault,) = verify(database, key_file).faults
    assert fault.startswith("audit_lines:8: the note of the last line was missing")


@pytest.mark.parametrize("lines_too", [False, True])
def test_a_missing_note_is_reported(
    filled: SharedAuditLog, database: StateDatabase, key_file: Path, lines_too: bool
) -> None:
    with database.writing() as connection:
        connection.execute(delete(chain))
        if lines_too:
            connection.execute(delete(lines))
    with pytest.raises(InvalidInput, match="no audit log yet"):
        verify(database, key_file)
    write(filled, 1)
    faults = verify(database, key_file).faults
    assert ["note of the last line was missing" in fault for fault in faults] == [True]
    write(SharedAuditLog(database, key_file), 1)
    assert verify(database, key_file).lines == (3 if lines_too else 13)


def test_another_key_is_refused(filled: SharedAuditLog, database: StateDatabase, tmp_path: Path) -> None:
    log = SharedAuditLog(database, tmp_path / "another")
    with pytest.raises(InvalidInput, match=r"another, the key of .* does not exist; copy the file"):
        log.open()
    (tmp_path / "another").write_text("ab" * 32)
    with pytest.raises(InvalidInput, match=r"another is not the key of the audit log"):
        log.open()
    assert not log.write("1", "", "search", [], 200)
    with pytest.raises(InvalidInput, match="is not the key"):
        verify(database, tmp_path / "another")
    (tmp_path / "another").write_text("ab")
    with pytest.raises(InvalidInput, match="is damaged"):
        verify(database, tmp_path / "another")


@pytest.mark.slow
def test_services_write_at_the_same_time(database: StateDatabase, key_file: Path) -> None:
    key_file.parent.mkdir()
    key_file.write_text("ab" * 32)
    logs = [SharedAuditLog(open_state(settings.load()), key_file) for _ in range(3)]
    with ThreadPoolExecutor(9) as pool:
        list(pool.map(lambda number: write(logs[number % 3], 20), range(9)))
    report = verify(database, key_file)
    assert (report.lines, report.faults) == (180, [])


def test_old_lines_are_removed_and_it_is_known(
    filled: SharedAuditLog, database: StateDatabase, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.writing() as connection:
        old = int(time.time()) - 31 * 86_400
        connection.execute(update(lines).where(lines.c.number <= 6).values(time=old))
    monkeypatch.setattr(shared_audit, "REMOVED_AT_ONCE", 4)
    log = SharedAuditLog(database, key_file, days=30)
    write(log, 1)
    assert json.loads(stored(database)[0])["n"] == 5
    assert log._clean_at < time.monotonic() + shared_audit.SOON
    log._clean_at = time.monotonic()
    write(log, 1)
    report = verify(database, key_file)
    assert (report.first, report.lines, report.faults) == (7, 6, [])
    with database.writing() as connection:
        connection.execute(delete(lines).where(lines.c.number == 7))
    assert "begins at line 8, not at line 7" in verify(database, key_file).faults[0]
    with database.writing() as connection:
        connection.execute(update(chain).values(removed=7))
    assert "note of removed lines was changed" in verify(database, key_file).faults[-1]
    with database.writing() as connection:
        connection.execute(update(lines).values(time=1))
    log._clean_at = time.monotonic()
    write(log, 1)
    log._clean_at = time.monotonic()
    write(log, 1)
    assert stored(database), "the last line stays"


def test_commands_and_settings(database: StateDatabase, tmp_path: Path) -> None:
    active = settings.load(require_tokens=True)
    SharedTokens(database).create([Scope.search])
    check_startup(active)
    log = open_audit_log(active, database)
    assert isinstance(log, SharedAuditLog)
    write(log, 3)
    head = command("admin", "audit-log", "head")[1].strip()
    assert head.startswith("3:")
    code, out, _ = command("admin", "audit-log", "verify", "--head", head)
    assert (code, f"3 lines, unbroken; the last is {head}" in out) == (0, True)
    exported = command("admin", "audit-log", "export")[1]
    assert exported.splitlines() == stored(database)
    assert command("admin", "audit-log", "export", "--since", "2100-01-31")[1] == ""
    with database.writing() as connection:
        connection.execute(delete(lines).where(lines.c.number == 2))
    code, out, _ = command("admin", "audit-log", "verify")
    assert (code, "audit_lines:3: line 3 follows line 1" in out) == (1, True)
    in_file = settings.load(require_tokens=True, audit_log=tmp_path / "audit.jsonl")
    assert not isinstance(open_audit_log(in_file, database), SharedAuditLog)
    assert (
        "is the file" in command("admin", "audit-log", "export", CBIR_AUDIT_LOG=tmp_path / "audit.jsonl")[2]
    )
    assert open_audit_log(settings.load(), database) is None
    assert open_audit_log(settings.load(audit_log="database"), database)


def test_a_foreign_line_in_the_way_of_the_next_is_reported(
    filled: SharedAuditLog, database: StateDatabase, key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All threads that wait for a transaction learn that it failed; the log goes on without the foreign line."""
    with database.writing() as connection:
        connection.execute(insert(lines), [{"number": 15, "time": 0, "line": "{}"}])
    write(filled, 4)
    with ThreadPoolExecutor(6) as pool:
        written = list(pool.map(lambda _: filled.write(None, "", "search", [], 200), range(6)))
    assert written == [False] * 6
    assert "has a line 15 or later, which no service has written" in caplog.text
    assert verify(database, key_file).faults == ["audit_lines:15: a line that is not part of the chain"]
    with database.writing() as connection:
        connection.execute(delete(lines).where(lines.c.number == 15))
    write(filled, 1)
    assert json.loads(stored(database)[14])["count"] == 6
    assert verify(database, key_file).faults == []


def test_a_table_needs_a_database() -> None:
    with pytest.raises(InvalidInput, match="state_database must be set"):
        check_startup(settings.load(audit_log="database"))


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_while_the_database_does_not_answer(
    indexed: Path, database: StateDatabase, ids: list[str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = settings.load(require_tokens=True, audit_failure=mode)
    app = create_app(indexed, active)
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {SharedTokens(database).create([Scope.search])[1]}"

    def answer() -> Any:
        return client.post("/v1/search", json={"image_id": ids[0], "k": 1})

    assert answer().status_code == 200
    audit = app.extensions["cbir-access"].audit
    with monkeypatch.context() as patched:
        patched.setattr(audit, "_database", open_state(settings.load(state_database=DOWN)))
        answers = [answer() for _ in range(3)]
        assert [each.status_code for each in answers] == [200 if mode == "open" else 503] * 3
        if mode == "closed":
            assert "audit log" in problem(answers[0], 503)
    assert answer().status_code == 200
    written = [json.loads(line) for line in stored(database)]
    lost = [line["count"] for line in written if line["action"] == NOT_WRITTEN]
    assert len(lost) == 1
    assert lost[0] >= 3
    assert "unbroken" in command("admin", "audit-log", "verify")[1]
