"""Tokens in their file, and the command that makes them."""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cbir.errors import InvalidInput, NotFound
from service.access.token_list import parse_expiry
from service.access.token_stores import Scope, Token, TokenStore, TokensUnreadable
from service.state.schema import StateUnavailable
from tests.service.conftest import command

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """`cbir admin token ...` with a state folder."""
    return command("admin", "token", *arguments, CBIR_STATE_FOLDER=folder)


def test_only_a_hash_is_kept(tmp_path: Path) -> None:
    _, text = TokenStore(tmp_path).create([Scope.search], name="reading room")
    secret = text.split("_", 2)[2]
    kept = (tmp_path / "tokens.json").read_text()
    assert secret not in kept
    assert hashlib.sha256(secret.encode()).hexdigest() in kept
    assert len(secret) >= 43  # 256 bits in base64


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "state"
    TokenStore(folder).create([Scope.search])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for somebody else")
def test_root_makes_them_for_the_owner_of_the_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, 4711, 4712)
    TokenStore(tmp_path).create([Scope.search])
    owners = {(file.stat().st_uid, file.stat().st_gid) for file in tmp_path.iterdir()}
    assert owners == {(4711, 4712)}


def test_tokens_that_are_gone_are_not_taken_for_none(tmp_path: Path) -> None:
    assert TokenStore(tmp_path).all() == {}
    TokenStore(tmp_path).create([Scope.search])
    (tmp_path / "tokens.json").unlink()
    with pytest.raises(TokensUnreadable, match=r"is missing, .* delete tokens\.json\.lock"):
        TokenStore(tmp_path).all()
    with pytest.raises(TokensUnreadable):
        TokenStore(tmp_path).create([Scope.search])
    (tmp_path / "tokens.json.lock").unlink()
    TokenStore(tmp_path).create([Scope.search])


def test_found_again_and_nothing_else(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path)
    token, text = tokens.create([Scope.search, Scope.ingest, Scope.search])
    other, _ = tokens.create([Scope.admin])
    assert token.scopes == (Scope.ingest, Scope.search)
    assert tokens.find(text) == token
    secret = text.split("_", 2)[2]
    for wrong in (
        "",
        "_",
        "cbir",
        secret,
        text[:-1],
        text + "x",
        text.upper(),
        f"cbir_{token.token_id}_",
        f"cbir_{token.token_id}_{token.digest}",
        f"cbir_{other.token_id}_{secret}",
        f"cbir_00000000_{secret}",
        f"x_{token.token_id}_{secret}",
        "cbir_\udcff_\ud800",
    ):
        assert tokens.find(wrong) is None, wrong


def test_scopes() -> None:
    for held, allowed in {
        (Scope.search,): {Scope.search},
        (Scope.ingest, Scope.annotate): {Scope.ingest, Scope.annotate},
        (Scope.admin,): set(Scope),
    }.items():
        made = _token(held)
        assert {scope for scope in Scope if made.allows(scope)} == allowed


def _token(scopes: Sequence[Scope], **what: datetime) -> Token:
    return Token(token_id="0", name="", scopes=tuple(scopes), digest="", created=NOW, **what)


def test_states() -> None:
    assert _token([]).state == "valid"
    assert _token([], expires=datetime.now(UTC) + timedelta(minutes=1)).state == "valid"
    assert _token([], expires=datetime.now(UTC)).state == "expired"
    assert _token([], revoked=NOW).state == "revoked"


def test_another_process_sees_changes_at_once(tmp_path: Path) -> None:
    reading, writing = TokenStore(tmp_path), TokenStore(tmp_path)
    assert reading.all() == {}
    token, text = writing.create([Scope.search])
    found = reading.find(text)
    assert found
    assert found.state == "valid"
    writing.revoke(token.token_id)
    found = reading.find(text)
    assert found
    assert found.state == "revoked"
    assert reading.get(token.token_id) is None


def test_revoking_twice_keeps_the_first_time(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path)
    token, _ = tokens.create([Scope.search])
    assert tokens.revoke(token.token_id) == tokens.revoke(token.token_id)
    with pytest.raises(NotFound, match="token list"):
        tokens.revoke("ffffffff!")


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as executor:
        made = list(executor.map(lambda _: TokenStore(tmp_path).create([Scope.search]), range(24)))
    tokens = TokenStore(tmp_path)
    assert len(tokens.all()) == 24
    assert all(tokens.find(text) == token for token, text in made)


@pytest.mark.parametrize("content", ["", "[", "{}", "[1]", '[{"token_id": "1"}]', "\xff"])
def test_damaged_file_lets_nobody_in(tmp_path: Path, content: str) -> None:
    tokens = TokenStore(tmp_path)
    _, text = tokens.create([Scope.search])
    (tmp_path / "tokens.json").write_bytes(content.encode("latin-1"))
    for _ in range(2):
        with pytest.raises(TokensUnreadable, match="damaged"):
            tokens.find(text)


def test_file_open_to_all_is_not_read(tmp_path: Path) -> None:
    TokenStore(tmp_path).create([Scope.search])
    (tmp_path / "tokens.json").chmod(0o644)
    with pytest.raises(TokensUnreadable, match="chmod 600"):
        TokenStore(tmp_path).all()


def test_what_cannot_be_made(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path)
    with pytest.raises(InvalidInput, match="--scope"):
        tokens.create([])
    with pytest.raises(InvalidInput, match="past"):
        tokens.create([Scope.search], datetime.now(UTC))
    for name in ("x" * 101, "two\nlines", "\x1b[31m"):
        with pytest.raises(InvalidInput, match="--name"):
            tokens.create([Scope.search], name=name)
    (tmp_path / "file").touch()
    with pytest.raises(StateUnavailable, match="state_folder"):
        TokenStore(tmp_path / "file").create([Scope.search])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12h", datetime(2030, 2, 1, 0, tzinfo=UTC)),
        ("1d", datetime(2030, 2, 1, 12, tzinfo=UTC)),
        ("4w", datetime(2030, 2, 28, 12, tzinfo=UTC)),
        ("2030-02-01", datetime(2030, 2, 1, 23, 59, 59, tzinfo=UTC)),
        ("never", None),
    ],
)
def test_expiry(text: str, expected: datetime | None) -> None:
    assert parse_expiry(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "12", "1y", "-1d", "2030-02-30", "tomorrow", "99999w", "9999-01-01"])
def test_expiry_that_does_not_fit(text: str) -> None:
    with pytest.raises(InvalidInput, match="--expires"):
        parse_expiry(text, NOW)


def test_command(tmp_path: Path) -> None:
    code, out, err = run(
        tmp_path, "create", "--scope", "search", "--scope", "ingest", "--name", "PACS", "--expires", "1d"
    )
    assert code == 0, err
    text = out.strip()  # the token alone, for TOKEN=$(cbir admin token create ...)
    token = TokenStore(tmp_path).find(text)
    assert token
    assert "not shown again" in err
    listed = run(tmp_path, "list")[1]
    for part in (token.token_id, "valid", "ingest,search", "PACS"):
        assert part in listed
    assert text.split("_", 2)[2] not in listed
    (row,) = json.loads(run(tmp_path, "list", "--format", "json")[1])
    assert row["token_id"] == token.token_id
    assert "digest" not in row
    assert "revoked" in run(tmp_path, "revoke", token.token_id)[1]
    assert "revoked" in run(tmp_path, "list")[1]


def test_command_with_what_does_not_fit(tmp_path: Path) -> None:
    assert "no tokens" in run(tmp_path, "list")[1]
    for arguments in (("create",), ("create", "--scope", "everything"), ("revoke",)):
        assert run(tmp_path, *arguments)[0] == 2
    for arguments in (("create", "--scope", "search", "--expires", "soon"), ("revoke", "12345678")):
        code, _, err = run(tmp_path, *arguments)
        assert code == 2
        assert len(err.strip().splitlines()) == 1
