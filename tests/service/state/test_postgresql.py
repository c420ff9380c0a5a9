"""The state in PostgreSQL: its settings, two services that share it, and a server that is killed."""

import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from cbir import settings
from cbir.errors import InvalidInput
from cbir.system.addresses import without_password
from service.access import sessions
from service.access.rate_limits import Limiter
from service.access.sessions import Sessions, User
from service.access.token_stores import Scope, SharedTokens, TokenStore
from service.jobs.stored_jobs import NewJob, add_job, load_jobs
from service.state import access_rows, schema
from service.state.access_rows import StoredSession, add_session, find_session, signing_key
from service.state.database import StateDatabase, open_state
from service.state.postgresql import CONNECTING
from service.state.request_counts import CountKey, add_counts, load_counts
from service.state.schema import StateUnavailable
from tests.postgresql_server import USER, PostgresqlServer
from tests.service.conftest import command

URL = "postgresql+psycopg://cbir:s3cret@db.example.org:5432/hospital?schema=cbir"


@pytest.fixture
def address(postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new schema, which the settings name."""
    url = postgresql.new_schema()
    monkeypatch.setenv("CBIR_STATE_DATABASE", url)
    return url


def opened() -> StateDatabase:
    return open_state(settings.load())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite:///s3cret", "not the URL of a PostgreSQL database"),
        ("postgresql://u:s3cret@host/db", "not the URL of a PostgreSQL database"),
        ("postgresql+psycopg://u:s3cret@host/", "not the URL of a PostgreSQL database"),
        ("postgresql+psycopg://u:s3cret@host:port/db", "not a URL"),
        ("postgresql+psycopg://u:s3cret@/db", "no host"),
        ("postgresql+psycopg://u@host/db?password=s3cret", "password and options"),
        ("postgresql+psycopg://u:s3cret@host/db?options=-c%20search_path=x", "password and options"),
        ("postgresql+psycopg://u:s3cret@host/db?schema=Mine", "schema"),
        ("postgresql+psycopg://u:s3cret@host/db?schema=x;drop", "schema"),
        ("postgresql+psycopg://u:s3cret@host/db?schema=pg_catalog", "schema"),
    ],
)
def test_settings_that_cannot_work(url: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"setting state_database: .*{reason}") as caught:
        settings.load(state_database=url)
    assert "s3cret" not in str(caught.value)


def test_no_output_has_the_password(tmp_path: Path) -> None:
    active = settings.load(state_database=URL, state_folder=tmp_path)
    masked = URL.replace("s3cret", "***")
    assert active.state_database == URL
    assert without_password(URL) == masked
    assert without_password(URL.replace("cbir:s3cret@", "")) == URL.replace("cbir:s3cret@", "")
    assert "s3cret" not in repr(active)
    assert masked in command("admin", "config", CBIR_STATE_DATABASE=URL)[1]
    code, out, _ = command("admin", "config", "--format", "json", CBIR_STATE_DATABASE=URL)
    assert (code, "s3cret" in out) == (0, False)
    unreachable = "postgresql+psycopg://cbir:s3cret@127.0.0.1:1/hospital"
    with pytest.raises(StateUnavailable, match=r"cbir:\*\*\*@127.*cannot be used: connection") as caught:
        open_state(settings.load(state_database=unreachable, state_folder=tmp_path)).check()
    assert "s3cret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_password_from_a_file(tmp_path: Path, address: str) -> None:
    file = tmp_path / "password"
    active = settings.load(state_database_password_file=file)
    with pytest.raises(StateUnavailable, match=r"state_database_password_file .*No such file"):
        open_state(active).check()
    file.write_text("any\n")  # this server trusts everyone
    open_state(active).check()


def test_without_psycopg_one_line_says_what_to_install(address: str) -> None:
    program = "import sys; sys.modules['psycopg'] = None; from cbir.api.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "admin", "usage", "show"], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install '.[postgres]' in the folder of cbir's source")
    assert len(done.stderr.strip().splitlines()) == 1


def test_schemas_keep_services_apart(postgresql: PostgresqlServer, address: str, tmp_path: Path) -> None:
    access_rows.save_use(opened(), "1a2b3c4d", 5)
    other = open_state(settings.load(state_database=postgresql.new_schema()))
    assert (access_rows.load_uses(other), access_rows.load_uses(opened())) == ({}, {"1a2b3c4d": 5})
    assert not settings.load().state_folder.exists()


def test_user_who_may_create_nothing_uses_what_exists(postgresql: PostgresqlServer, address: str) -> None:
    with opened().writing() as connection:
        name = connection.execute(text("SELECT current_schema()")).scalar_one()
        connection.execute(text(f"CREATE ROLE {name} LOGIN"))
        connection.execute(text(f"GRANT USAGE ON SCHEMA {name} TO {name}"))
        connection.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA {name} TO {name}"))
    limited = open_state(settings.load(state_database=address.replace("//postgres@", f"//{name}@")))
    access_rows.save_use(limited, "1a2b3c4d", 5)
    absent = f"{postgresql.new_schema()}".replace("//postgres@", f"//{name}@")
    with pytest.raises(StateUnavailable, match="permission denied for database") as caught:
        open_state(settings.load(state_database=absent)).check()
    assert "\n" not in str(caught.value)


def test_services_that_start_at_once_create_the_tables_once(address: str) -> None:
    errors: list[Exception] = []

    def start() -> None:
        try:
            opened().check()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with opened().reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM schema_version")).scalar_one() == 1


def test_text_that_the_server_cannot_store_is_the_callers_error(address: str) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        access_rows.save_use(opened(), "\0", 5)


def test_times_after_2038(address: str) -> None:
    access_rows.save_use(opened(), "1a2b3c4d", 2**33)
    assert access_rows.load_uses(opened()) == {"1a2b3c4d": 2**33}


def test_deleted_rows_are_vacuumed(address: str) -> None:
    database = opened()
    access_rows.save_use(database, "1a2b3c4d", 5)
    with database.writing() as connection:
        connection.execute(access_rows.uses.delete())
    database.drop_old_rows()
    with database.reading() as connection:
        size = "SELECT pg_relation_size('token_uses')"
        assert connection.execute(text(size)).scalar_one() == 0


def test_a_transaction_that_hangs_delays_others_for_a_bounded_time(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.postgresql.TIMEOUTS", "-c lock_timeout=100ms")
    first, second = opened(), opened()
    second.check()
    with first.writing(), pytest.raises(StateUnavailable, match="lock timeout"):
        second.check()
    second.check()


def test_wrong_tokens_are_counted_over_all_services(address: str) -> None:
    first, second = (Limiter(3, 60, database=opened()) for _ in range(2))
    for _ in range(3):
        assert first.seconds_to_wait("10.0.0.1") == 0
        first.record_failure("10.0.0.1")
    assert first.seconds_to_wait("10.0.0.1") > 0
    second.record_failure("10.0.0.1")  # the one attempt that it lets through
    assert second.seconds_to_wait("10.0.0.1") > 0
    second.record_failure("10.0.0.2")
    assert second.seconds_to_wait("10.0.0.2") == 0


def test_old_failures_and_those_beyond_the_limit_are_forgotten(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.state import access_rows

    database, now = opened(), 1_800_000_000
    monkeypatch.setattr(access_rows, "unix_time", lambda: now)
    counts = [access_rows.add_failure(database, network, 60, 2) for network in "aabcac"]
    assert counts == [1, 2, 1, 1, 1, 2]  # c drops a, the third a drops b
    monkeypatch.setattr(access_rows, "unix_time", lambda: now + 60)
    assert access_rows.add_failure(database, "c", 60, 2) == 1
    with database.reading() as connection:
        assert connection.execute(text("SELECT network FROM failed_attempts")).scalars().all() == ["c"]


def test_while_the_server_is_down_sessions_go_on_for_a_while(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, unreachable = opened(), "postgresql+psycopg://cbir@127.0.0.1:1/hospital"
    kept = Sessions(database)
    cookie, unseen = kept.open("1a2b3c4d"), kept.open(User("mia", ()))
    assert kept.get(cookie)
    monkeypatch.setattr(kept, "_database", open_state(settings.load(state_database=unreachable)))
    now = time.monotonic()
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now + sessions.UNCHECKED_SECONDS - 5)
    assert kept.get(cookie)
    for call in (kept.get, kept.close):
        with pytest.raises(StateUnavailable, match="logins"):
            call(unseen)
    with pytest.raises(StateUnavailable, match="logins"):
        kept.open("1a2b3c4d")
    with pytest.raises(StateUnavailable, match="127"):
        signing_key(kept._database, "a purpose")
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now + sessions.UNCHECKED_SECONDS + 5)
    with pytest.raises(StateUnavailable, match="logins"):
        kept.get(cookie)


@pytest.mark.features
def test_copy_moves_everything(address: str) -> None:
    # A table of a feature: where none is installed, a service would not start beside it.
    from service.features.saved.cases.tables import QueryPicture, Viewer, add_case, list_cases, read_picture
    from service.features.saved.messages import CaseSearch, NewCase

    file = StateDatabase(settings.load().state_folder)
    session = StoredSession("hash", None, "mia", ("ct",), 4_000_000_000)
    key = CountKey("2026-03-02", "search", "none", "done")
    add_session(file, session, 10, 10)
    add_counts(file, {key: 7}, "2026-01-01")
    case = NewCase(title="Knee", search=CaseSearch())
    add_case(file, "user mia", "knees", case, QueryPicture(b"\x89PNG", "abc"), None)
    add_job(file, NewJob("index", "c", {"sources": ["/archive"]}, "place", "lane"), 10)
    in_file = TokenStore(settings.load().state_folder)
    in_file.create([Scope.search], expires=None, name="viewer", where=["site=A"])
    in_file.revoke(in_file.create([Scope.admin], datetime(2090, 1, 1, tzinfo=UTC))[0].token_id)
    code, out, _ = command("admin", "state", "copy", "--format", "json")
    assert code == 0
    assert {table: count for table, count in json.loads(out).items() if count} == {
        "job_files": 1, "jobs": 1, "login_sessions": 1, "request_counts": 1, "saved_cases": 1, "tokens": 2,
    }  # fmt: skip
    target = opened()
    assert list(SharedTokens(target).all().values()) == list(in_file.all().values())
    assert find_session(target, "hash") == session
    assert load_counts(target, "2026-01-01") == {key: 7}
    (copied,) = list_cases(target, Viewer("user mia", ["knees"], True, False))
    assert read_picture(target, copied.case_id) == b"\x89PNG"
    assert load_jobs(target) == load_jobs(file)
    add_session(target, session._replace(cookie_hash="new"), 10, 10)  # numbered after those copied
    add_case(target, "user mia", "knees", case, None, None)
    code, _, error = command("admin", "state", "copy")
    assert (code, "has rows already" in error) == (2, True)


def test_tokens_are_copied_alone_and_once(address: str) -> None:
    assert "nothing to copy" in command("admin", "state", "copy", "--only-tokens")[2]
    state = settings.load().state_folder
    text = TokenStore(state).create([Scope.search])[1]
    add_session(opened(), StoredSession("hash", None, "mia", ("ct",), 4_000_000_000), 10, 10)
    assert json.loads(command("admin", "state", "copy", "--only-tokens", "--format", "json")[1]) == {
        "tokens": 1
    }
    assert SharedTokens(opened()).find(text)
    assert "has tokens already" in command("admin", "state", "copy", "--only-tokens")[2]


def test_copy_says_what_is_missing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no state.sqlite and no tokens.json" in command("admin", "state", "copy")[2]
    monkeypatch.delenv("CBIR_STATE_DATABASE")
    assert "state_database is not set" in command("admin", "state", "copy")[2]


def test_parameters_of_the_address_are_passed_on(postgresql: PostgresqlServer) -> None:
    url = f"{postgresql.new_schema()}&application_name=mine&connect_timeout=7"
    with open_state(settings.load(state_database=url)).reading() as connection:
        assert connection.execute(text("SHOW application_name")).scalar_one() == "mine"
    with open_state(settings.load(state_database=postgresql.new_schema())).reading() as connection:
        name = connection.execute(text("SHOW application_name")).scalar_one()
        assert name == CONNECTING["application_name"]
    wrong = f"{postgresql.new_schema()}&colour=red"
    with pytest.raises(StateUnavailable, match="colour"):
        open_state(settings.load(state_database=wrong)).check()


def test_a_dump_brings_the_state_back(postgresql: PostgresqlServer, address: str, tmp_path: Path) -> None:
    database, dump = opened(), tmp_path / "cbir.dump"
    access_rows.save_use(database, "1a2b3c4d", 5)
    name = address.rpartition("=")[2]
    place = ["-h", str(postgresql.folder), "-U", USER]
    program = postgresql.programs / "pg_dump"
    subprocess.run(
        [program, *place, f"--schema={name}", "--format=custom", f"--file={dump}", USER],
        check=True,
        timeout=60,
    )
    access_rows.save_use(database, "1a2b3c4d", 6)
    access_rows.save_use(database, "5e6f7a8b", 6)
    program = postgresql.programs / "pg_restore"
    subprocess.run(
        [program, *place, "--clean", "--if-exists", f"--dbname={USER}", dump], check=True, timeout=60
    )
    assert access_rows.load_uses(opened()) == {"1a2b3c4d": 5}


def test_newer_database_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        schema, "MIGRATIONS", (*schema.MIGRATIONS, schema.Migration("nowhere", "DROP TABLE nowhere"))
    )
    opened().check()
    monkeypatch.undo()
    monkeypatch.setenv("CBIR_STATE_DATABASE", address)
    with pytest.raises(StateUnavailable, match=r"state_database .* newer version of cbir"):
        opened().check()
