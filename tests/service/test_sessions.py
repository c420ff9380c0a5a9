"""Sessions of the pages: they outlive a restart, end in time, and their number is bounded."""

import hashlib
import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from cbir import settings
from service.access import sessions
from service.access.sessions import Sessions, User
from service.access.token_stores import Scope
from service.app import create_app
from service.state.access_rows import StoredSession, signing_key
from service.state.database import StateDatabase, open_state
from service.state.sqlite_file import FILE
from tests.service.conftest import ONLY_FILE, stored_tokens

pytestmark = pytest.mark.usefixtures("each_database")


@pytest.fixture
def database(state: Path, each_database: str) -> StateDatabase:
    return open_state(settings.load(state_folder=state))


def test_they_outlive_a_restart(database: StateDatabase, state: Path) -> None:
    before = Sessions(database)
    cookie, other = before.open("1a2b3c4d"), before.open(User("mia", ("radiology", "ct")))
    closed = before.open("1a2b3c4d")
    before.close(closed)
    after = Sessions(open_state(settings.load(state_folder=state)))
    for each in (cookie, other):
        session = after.get(each)
        assert session
        assert session == before.get(each)
    assert after.get(cookie).subject == "1a2b3c4d"  # type: ignore[union-attr]
    assert after.get(other).subject == User("mia", ("radiology", "ct"))  # type: ignore[union-attr]
    assert after.get(closed) is None
    assert after.get("") is None


@ONLY_FILE
def test_the_file_holds_no_cookie(database: StateDatabase, state: Path) -> None:
    kept = Sessions(database)
    cookie = kept.open("1a2b3c4d")
    session = kept.get(cookie)
    assert session
    content = b"".join(path.read_bytes() for path in state.iterdir())
    assert hashlib.sha256(cookie.encode()).hexdigest().encode() in content
    assert cookie.encode() not in content
    assert session.csrf.encode() not in content


def test_each_has_its_own_csrf_value(database: StateDatabase) -> None:
    kept = Sessions(database)
    assert kept.get(kept.open("x")).csrf != kept.get(kept.open("x")).csrf  # type: ignore[union-attr]


def test_they_are_bounded(database: StateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place in (database, StateDatabase(tmp_path / "file" / "state")):
        with monkeypatch.context() as patch:
            patch.setattr(sessions, "MAX_SESSIONS", 3)
            kept = Sessions(place)
            cookies = [kept.open(str(number)) for number in range(5)]
            assert [bool(kept.get(cookie)) for cookie in cookies] == [False, False, True, True, True]
            patch.setattr(sessions, "MAX_SESSIONS", 100)
            patch.setattr(sessions, "MAX_SESSIONS_OF_SUBJECT", 2)
            other, user = kept.open("other"), kept.open(User("same", ()))
            cookies = [kept.open("same") for _ in range(5)]
            assert [bool(kept.get(cookie)) for cookie in cookies] == [False, False, False, True, True]
            assert kept.get(other), "one token ends no sessions of others"
            assert kept.get(user)


def test_they_end_by_the_wall_clock(database: StateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Sessions(database)
    cookie = kept.open("x")
    now = sessions.time.time()
    monkeypatch.setattr(sessions.time, "time", lambda: now + sessions.LIFETIME_SECONDS - 5)
    assert kept.get(cookie)
    monkeypatch.setattr(sessions.time, "time", lambda: now + sessions.LIFETIME_SECONDS)
    assert kept.get(cookie) is None
    kept.open("y")
    with database.reading() as connection:
        assert connection.exec_driver_sql("SELECT token_id FROM login_sessions").scalars().all() == ["y"]


def test_another_process_may_end_them(
    database: StateDatabase, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Sessions(database), Sessions(open_state(settings.load(state_folder=state)))
    monkeypatch.setattr(sessions, "CHECK_SECONDS", 0.0)
    cookie = first.open("x")
    assert first.get(cookie)
    second.close(cookie)
    assert first.get(cookie) is None


def test_logout_ends_a_session_that_is_looked_up_meanwhile(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, find = Sessions(database), sessions.find_session
    cookie = kept.open("x")

    def close_meanwhile(asked: StateDatabase, key: str) -> StoredSession | None:
        found = find(asked, key)
        monkeypatch.setattr(sessions, "find_session", find)
        kept.close(cookie)
        return found

    monkeypatch.setattr(sessions, "find_session", close_meanwhile)
    assert kept.get(cookie) is None
    assert kept.get(cookie) is None


def test_requests_do_not_write(database: StateDatabase) -> None:
    kept = Sessions(database)
    cookie = kept.open("x")
    assert kept.get(cookie)
    statements: list[str] = []
    event.listen(
        database._open(), "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    for _ in range(100):
        assert kept.get(cookie)
    assert statements == []


@ONLY_FILE
def test_without_a_database_they_are_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    kept = Sessions(StateDatabase(tmp_path / "file" / "state"))
    with caplog.at_level(logging.WARNING):
        cookie = kept.open("x")
        assert kept.get(cookie)
        kept.close(cookie)
        assert kept.get(cookie) is None
    assert "a login will not outlive a restart: state_folder" in caplog.text


@ONLY_FILE
def test_database_that_breaks_ends_no_session(
    database: StateDatabase, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "CHECK_SECONDS", 0.0)
    kept = Sessions(database)
    cookie = kept.open("x")
    assert kept.get(cookie)
    with closing(sqlite3.connect(state / FILE)) as connection:
        connection.execute("DROP TABLE login_sessions")
    assert kept.get(cookie)
    kept.close(cookie)
    assert kept.get(cookie) is None


def test_login_outlives_a_restart_of_the_service(indexed: Path, state: Path) -> None:
    active = settings.load(require_tokens=True, state_folder=state)
    token, text = stored_tokens(state).create([Scope.search])
    before = create_app(indexed, active).test_client()
    before.post("/login", data={"token": text})
    cookie = before.get_cookie("cbir")
    assert cookie
    after = create_app(indexed, active).test_client()
    after.set_cookie("cbir", cookie.value)
    page = after.get("/")
    assert page.status_code == 200
    assert page.text.count("csrf") == before.get("/").text.count("csrf") > 0
    stored_tokens(state).revoke(token.token_id)
    end = time.monotonic() + 3
    while after.get("/").status_code != 401:
        assert time.monotonic() < end, "a shared revocation takes a second"
        time.sleep(0.05)


def test_signing_key_stays_the_same(database: StateDatabase, state: Path, tmp_path: Path) -> None:
    key = signing_key(database, "a purpose")
    assert len(key) == 32
    assert signing_key(open_state(settings.load(state_folder=state)), "a purpose") == key
    assert signing_key(database, "another purpose") != key
    (tmp_path / "file").touch()
    broken = StateDatabase(tmp_path / "file" / "state")
    assert signing_key(broken, "a purpose") != signing_key(broken, "a purpose")
