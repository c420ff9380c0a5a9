"""Tokens in the state database: every service sees what another one, or a command, has changed."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import text, update

from cbir import settings
from cbir.errors import InvalidInput, NotFound
from service.access import token_stores
from service.access.security import check_startup
from service.access.token_stores import Scope, SharedTokens, TokenStore, TokensUnreadable
from service.app import create_app
from service.state.access_rows import tokens as table
from service.state.database import StateDatabase, open_state
from service.state.schema import StateUnavailable
from tests.postgresql_server import PostgresqlServer
from tests.service.conftest import command, problem


@pytest.fixture
def database(postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> StateDatabase:
    """A new schema, which the settings name."""
    monkeypatch.setenv("CBIR_STATE_DATABASE", postgresql.new_schema())
    return open_state(settings.load())


def another() -> SharedTokens:
    """The tokens as another service sees them."""
    return SharedTokens(open_state(settings.load()))


def test_a_token_is_the_same_at_every_service(database: StateDatabase) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    knows_none = another()
    assert not knows_none.all()
    token, sent = SharedTokens(database).create(
        [Scope.search, Scope.originals], until, "ward A", ["chest"], ["site=A", "sex=F|M"]
    )
    assert knows_none.find(sent) == token, "at once, although it has just asked"
    assert another().find(sent) == token
    assert another().find(sent + "x") is None
    assert token.state == "valid"
    assert not list(settings.load().state_folder.glob("tokens.json*"))
    with database.reading() as connection:
        stored = str(connection.execute(text("SELECT * FROM tokens")).all())
    assert sent.split("_", 2)[2] not in stored


def test_a_revocation_is_seen_within_a_second(database: StateDatabase) -> None:
    store, other = SharedTokens(database), another()
    token, sent = store.create([Scope.search])
    assert other.find(sent)
    store.revoke(token.token_id)
    assert store.get(token.token_id) is None, "at once where it was made"
    end = time.monotonic() + 2  # the second that the documents state, and one for a busy machine
    while other.get(token.token_id):
        assert time.monotonic() < end
        time.sleep(0.05)
    found = other.find(sent)
    assert found
    assert found.state == "revoked"
    with pytest.raises(NotFound, match="cbir admin token list"):
        store.revoke("ffffffff")


def test_expired(database: StateDatabase) -> None:
    store = SharedTokens(database)
    token, sent = store.create([Scope.search], datetime.now(UTC) + timedelta(days=1))
    with database.writing() as connection:
        connection.execute(update(table).values(expires=int(time.time()) - 1))
    found = another().find(sent)
    assert found
    assert found.state == "expired"
    with pytest.raises(InvalidInput, match="in the past"):
        store.create([Scope.search], datetime(2020, 1, 1, tzinfo=UTC))
    assert another().all().keys() == {token.token_id}


def test_services_create_at_the_same_time(database: StateDatabase) -> None:
    with ThreadPoolExecutor(4) as executor:
        made = list(executor.map(lambda _: another().create([Scope.search]), range(12)))
    store = SharedTokens(database)
    assert all(store.find(sent) == token for token, sent in made)
    assert len(store.all()) == 12


def test_the_commands(database: StateDatabase) -> None:
    sent = command("admin", "token", "create", "--scope", "search", "--name", "reading room")[1].strip()
    token = SharedTokens(database).find(sent)
    assert token
    assert token.name == "reading room"
    (row,) = json.loads(command("admin", "token", "list", "--format", "json")[1])
    assert (row["token_id"], row["state"], "digest" in row) == (token.token_id, "valid", False)
    assert "revoked" in command("admin", "token", "revoke", token.token_id)[1]
    assert not TokenStore(settings.load().state_folder).file.exists()


def test_requests_do_not_wait_for_a_database_that_is_down(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked, answer = SharedTokens(database), Event(), Event()
    sent = store.create([Scope.search])[1]
    assert store.find(sent)

    def ask(_connection: object) -> None:
        asked.set()
        answer.wait(10)
        raise StateUnavailable("down")

    monkeypatch.setattr(token_stores, "read_tokens", ask)
    monkeypatch.setattr(token_stores, "CHECK_SECONDS", 0)
    with ThreadPoolExecutor(1) as other:
        answer.set()
        assert store.find(sent), "found to be down"
        asked.clear()
        answer.clear()
        waiting = other.submit(store.find, sent)
        assert asked.wait(10)
        assert store.find(sent), "while the other thread asks"
        assert not waiting.done()
        answer.set()
        assert waiting.result()


def test_damaged_rows_close_the_door(database: StateDatabase) -> None:
    SharedTokens(database).create([Scope.search])
    with database.writing() as connection:
        connection.execute(update(table).values(rights={"scopes": ["everything"]}))
    with pytest.raises(TokensUnreadable, match="tokens of state_database is damaged"):
        another().all()


def test_the_start_without_a_token_names_both_remedies(database: StateDatabase) -> None:
    active = settings.load(require_tokens=True)
    with pytest.raises(InvalidInput, match=r"state_database has no valid one; create one with `[^`]+`$"):
        check_startup(active)
    TokenStore(active.state_folder).create([Scope.search])
    with pytest.raises(InvalidInput, match="cbir admin state copy --only-tokens"):
        check_startup(active)
    SharedTokens(database).create([Scope.search])
    check_startup(active)


def test_while_the_database_does_not_answer(
    indexed: Path, database: StateDatabase, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was valid stays so for an hour; a service that has never read the tokens lets no one in."""
    app = create_app(indexed, settings.load(require_tokens=True))
    headers = {"Authorization": f"Bearer {SharedTokens(database).create([Scope.search])[1]}"}
    client, now = app.test_client(), time.monotonic()

    def status() -> int:
        return int(client.post("/v1/search", json={"image_id": ids[0], "k": 1}, headers=headers).status_code)

    assert status() == 200
    control = app.extensions["cbir-access"]
    down = open_state(settings.load(state_database="postgresql+psycopg://cbir@127.0.0.1:1/hospital"))
    monkeypatch.setattr(control.tokens, "_database", down)
    monkeypatch.setattr(token_stores.time, "monotonic", lambda: now + token_stores.UNCHECKED_SECONDS - 60)
    assert status() == 200
    monkeypatch.setattr(token_stores.time, "monotonic", lambda: now + token_stores.UNCHECKED_SECONDS + 60)
    assert status() == 503
    with pytest.raises(TokensUnreadable, match="127"):
        SharedTokens(down).all()
    stranger = create_app(
        indexed, settings.load(require_tokens=True, state_database="postgresql+psycopg://cbir@127.0.0.1:1/x")
    ).test_client()
    assert "cannot read its tokens" in problem(stranger.get("/readyz"), 503)
