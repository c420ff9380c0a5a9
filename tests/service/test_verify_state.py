"""The check of a state folder: flipped bits of every file are seen, and states of 1.0 get their checksums."""

import json
import os
import shutil
import sqlite3
import struct
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, Table, Text, select, text

from cbir import settings
from cbir.store.base.statements import float_bytes, row_checksum
from cbir.system.access_rights import Scope
from service.access.security import open_audit_log
from service.access.token_list import TokensUnreadable
from service.access.token_stores import TOKEN_LIST, TokenStore
from service.features.saved.cases.tables import cases
from service.server.verify_state import verify_state
from service.state.access_rows import load_uses, save_use, uses
from service.state.database import open_state
from service.state.schema import StateUnavailable
from service.state.sqlite_file import damaged_tables, keep_sums
from tests import benches
from tests.rights import obeying_rights, without_rights
from tests.service.conftest import command
from tests.service.earlier_states import return_to_first_version

contents = benches.loaded("state_contents")
PROBABILITY = struct.pack(">d", 0.1234567890123456)
IMAGE = f"segmentations/{0:032x}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("made") / "state"
    contents.make_state(folder)
    return folder


@pytest.fixture
def full(made: Path, tmp_path: Path) -> Path:
    """State folder with something of every kind."""
    return shutil.copytree(made, tmp_path / "full")


def problems(folder: Path) -> list[str]:
    return verify_state(contents.state_settings(folder))


def verify(folder: Path, *options: str) -> tuple[int, str]:
    segmentations = folder / "segmentations"
    code, out, err = command(
        "admin", "state", "verify", *options, CBIR_STATE_FOLDER=folder, CBIR_ANNOTATION_FOLDER=segmentations
    )
    return code, out + err


def flip(path: Path, at: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def flip_in(path: Path, part: bytes, offset: int = 0, bit: int = 0) -> None:
    """Flip a bit of the only place of `part`."""
    content = path.read_bytes()
    assert content.count(part) >= 1, part
    flip(path, content.index(part) + offset, bit)


def change(folder: Path, statement: str) -> None:
    """Change the database as its triggers note it, but without the checks of keys."""
    with closing(sqlite3.connect(folder / "state.sqlite")) as connection, connection:
        connection.create_function("row_checksum", -1, row_checksum)
        connection.create_function("float_bytes", 1, float_bytes)
        connection.execute(statement)


def test_a_sound_state_has_no_problems(full: Path) -> None:
    assert verify(full) == (0, "no problems\n")
    assert json.loads(verify(full, "--format", "json")[1]) == {"ok": True, "problems": []}


@pytest.mark.parametrize("options", [(), ("--accept",)])
def test_an_empty_folder_is_no_sound_state(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, printed = verify(tmp_path / "elsewhere", *options)
    assert (code, "is empty or missing" in printed) == (2, True)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("part", "table"),
    [
        (b"compare", "saved_cases"),
        (b"Fractures", "cohorts"),
        (PROBABILITY, "cohort_judgements"),
        (b'["ct"]', "login_sessions"),
        (b'"/archive"', "job_files"),
        (b"the folder /archive", "job_workers"),
        (b"2026-03-02", "request_counts"),
        (b"1a2b3c4d", "token_uses"),
        (b"192.0.2.0/24", "failed_attempts"),
        (bytes(range(32)), "reader_studies"),
        (b"clear", "reader_study_answers"),
        (b"huang2012", "usage_searches"),
    ],
)
def test_a_flipped_bit_of_a_row_names_its_table(full: Path, part: bytes, table: str) -> None:
    flip_in(full / "state.sqlite", part, len(part) - 1)
    code, printed = verify(full)
    assert code == 1
    assert (
        f"rows of the table {table} in {full / 'state.sqlite'} are not what was written; restore it"
        in printed
    )


def test_a_text_that_became_bytes_is_seen(full: Path) -> None:
    with open_state(contents.state_settings(full)).writing() as connection:
        connection.execute(text("UPDATE saved_cases SET note = CAST(note AS BLOB)"))  # its sum is the same
    assert ["saved_cases" in line for line in problems(full)] == [True]


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("cohort_judgements", "probability", "'x'"), ("saved_cases", "changed", "x''")],
)
def test_a_number_that_became_text_or_bytes_is_named_and_kept_on_demand(
    full: Path, table: str, column: str, value: str
) -> None:
    change(full, f"UPDATE {table} SET {column} = {value}")
    assert [f"rows of the table {table} in" in line for line in problems(full)] == [True]
    assert verify(full, "--accept") == (0, f"kept as they are: rows of the table {table}\nno problems\n")


def test_a_lost_sum_is_seen_and_keeps_no_one_from_writing(full: Path) -> None:
    change(full, "UPDATE row_totals SET name = 'jobr' WHERE name = 'jobs'")
    save_use(open_state(contents.state_settings(full)), "1a2b3c4d", 5)
    assert ["rows of the table jobs in" in line for line in problems(full)] == [True]
    assert verify(full, "--accept")[0] == 0


def test_a_row_that_refers_to_one_that_is_gone_is_seen(full: Path) -> None:
    change(full, "DELETE FROM cohorts")
    assert ["refer to rows that are gone" in line for line in problems(full)] == [True]


def test_a_flipped_bit_of_an_index_is_seen(full: Path) -> None:
    content = (full / "state.sqlite").read_bytes()
    places = [at for at in range(len(content)) if content.startswith(b"1a2b3c4d", at)]
    assert len(places) >= 2, "in the table and in its index"
    for place in places:
        flip(full / "state.sqlite", place)
        assert problems(full), place
        flip(full / "state.sqlite", place)
    assert problems(full) == []


def test_a_changed_trigger_is_seen(full: Path) -> None:
    flip_in(full / "state.sqlite", b"SET total = total + row_checksum(ifnull(CAST(NEW.job ", 18, bit=2)
    assert ["tables in" in line and "not defined as they were" in line for line in problems(full)] == [True]


@pytest.mark.parametrize(
    ("file", "part", "named"),
    [
        ("tokens.json", b"viewer", "tokens.json is damaged"),
        ("tokens.json", b"revoked", "tokens.json is damaged"),
        ("tokens.json", b'"tokens"', "tokens.json is damaged"),
        ("audit.jsonl", b"192.0.2.1", "audit log: audit.jsonl:1: line"),
        ("audit.jsonl.1", b"192.0.2.1", "audit log: audit.jsonl.1:1: line 1 was changed"),
        ("audit.jsonl.head", b'": 30', "audit log: "),
        (f"{IMAGE}/final.nrrd", b"abc", "changed: final.nrrd; restore them from a copy, or send them again"),
        (f"{IMAGE}/SHA256SUMS", b"final", "SHA256SUMS"),
    ],
)
def test_a_flipped_bit_of_a_file_names_it(full: Path, file: str, part: bytes, named: str) -> None:
    flip_in(full / file, part, len(part) - 1)
    code, printed = verify(full)
    assert (code, named in printed) == (1, True), printed


def test_a_note_of_an_earlier_line_is_seen(full: Path) -> None:
    """Line 30 has a mac; a note that gives it to another line would let the service number on from there."""
    note = full / "audit.jsonl.head"
    for number in range(30):
        note.write_bytes(note.read_bytes().replace(b'"n": 30', b'"n": %d' % number, 1).ljust(160)[:160])
        assert any("audit log" in line for line in problems(full)), number
        note.write_bytes(note.read_bytes().replace(b'"n": %d' % number, b'"n": 30', 1).ljust(160)[:160])
    assert problems(full) == []


def test_a_note_of_an_archived_line_is_seen(full: Path) -> None:
    (full / "audit.jsonl.1").unlink()
    first = json.loads((full / "audit.jsonl.2").read_text().splitlines()[0])["n"]
    active, note = contents.state_settings(full), full / "audit.jsonl.head"
    assert verify_state(active, first) == []
    note.write_bytes(note.read_bytes().replace(b'"n": 30', b'"n": 1', 1).ljust(160)[:160])
    (line,) = verify_state(active, first)
    assert "names line 1, which is before the log" in line


def test_a_key_of_another_log_is_seen(full: Path) -> None:
    flip(full / "audit.jsonl.key", 5)
    assert problems(full)


def test_what_is_gone_is_seen(full: Path) -> None:
    (full / "state.sqlite").unlink()
    (full / "tokens.json").unlink()
    printed = problems(full)
    assert ["state.sqlite is missing" in printed[0], "tokens.json is missing" in printed[1]] == [True, True]


def test_damaged_rows_are_kept_on_demand(full: Path) -> None:
    flip_in(full / "state.sqlite", b"Fractures", 3)
    assert verify(full, "--accept") == (0, "kept as they are: rows of the table cohorts\nno problems\n")
    assert verify(full) == (0, "no problems\n")


def test_rows_that_are_written_keep_the_sums(full: Path) -> None:
    database = open_state(contents.state_settings(full))
    save_use(database, "1a2b3c4d", 5)
    save_use(database, "new", 5)
    with database.writing() as connection:
        connection.execute(text("DELETE FROM cohorts"))  # and what refers to them
        connection.execute(text("UPDATE saved_cases SET picture = NULL, shared = FALSE"))
    assert problems(full) == []


def test_a_state_of_an_earlier_version_gets_sums(full: Path) -> None:
    with open_state(contents.state_settings(full)).writing() as connection:
        return_to_first_version(connection)
    assert load_uses(open_state(contents.state_settings(full)))["1a2b3c4d"]
    with open_state(contents.state_settings(full)).reading() as connection:
        names = connection.execute(text("SELECT name FROM row_totals")).scalars().all()
    assert {uses.name, cases.name, "sqlite_master"} <= set(names)
    assert problems(full) == []
    flip_in(full / "state.sqlite", b"compare")
    assert problems(full)


def test_a_column_that_a_later_version_adds_is_summed(full: Path) -> None:
    earlier, later = MetaData(), MetaData()
    shelves = Table("shelves", earlier, Column("name", Text))
    with open_state(contents.state_settings(full)).writing() as connection:
        earlier.create_all(connection)
        keep_sums(connection, [shelves], True)
        connection.execute(text("INSERT INTO shelves VALUES ('atlas')"))
        connection.execute(text("ALTER TABLE shelves ADD COLUMN place TEXT"))
        shelves = Table("shelves", later, Column("name", Text), Column("place", Text))
        keep_sums(connection, [shelves], True)
        connection.execute(text("UPDATE shelves SET place = 'left'"))
        assert damaged_tables(connection, [shelves]) == []


def test_tokens_of_an_earlier_version_get_a_hash(tmp_path: Path) -> None:
    TokenStore(tmp_path).create([Scope.search], name="viewer")
    file = tmp_path / "tokens.json"
    tokens = list(TokenStore(tmp_path).all().values())
    file.write_bytes(TOKEN_LIST.dump_json(tokens, indent=1, exclude_none=True))
    assert list(TokenStore(tmp_path).all().values()) == tokens
    flip_in(file, b"viewer", 5)
    with pytest.raises(TokensUnreadable, match="damaged"):
        TokenStore(tmp_path).all()


def test_tokens_in_a_folder_that_cannot_be_written_are_read(tmp_path: Path) -> None:
    TokenStore(tmp_path).create([Scope.search])
    file = tmp_path / "tokens.json"
    tokens = list(TokenStore(tmp_path).all().values())
    file.write_bytes(TOKEN_LIST.dump_json(tokens, indent=1, exclude_none=True))
    with without_rights(tmp_path, 0o500):
        assert list(obeying_rights(TokenStore(tmp_path).all).values()) == tokens


@pytest.mark.parametrize(
    "name", [IMAGE, f"{IMAGE}/final.nrrd", f"{IMAGE}/SHA256SUMS", "state.sqlite", "tokens.json"]
)
def test_what_may_not_be_read_is_named_and_not_called_damaged(full: Path, name: str) -> None:
    with without_rights(full / name):
        listed = obeying_rights(lambda: problems(full))
    assert "; ".join(listed).count(f" {(full / name).resolve()}; ") == 1
    assert "may not" in "; ".join(listed)
    assert "damaged" not in "; ".join(listed)
    assert "changed" not in "; ".join(listed)


def test_segmentations_of_an_earlier_version_get_a_manifest(full: Path) -> None:
    (full / IMAGE / "SHA256SUMS").unlink()
    assert problems(full) == []
    flip(full / IMAGE / "final.nrrd", 7)
    assert problems(full)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can make files for somebody else")
def test_what_root_makes_belongs_to_the_service(full: Path) -> None:
    for path in (full, *full.rglob("*")):
        os.chown(path, 4711, 4712)
    (full / IMAGE / "SHA256SUMS").unlink()
    (full / "segmentations" / ".lock").unlink()
    assert problems(full) == []
    made = full / IMAGE / "SHA256SUMS", full / "segmentations" / ".lock"
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(4711, 4712)}


def test_a_segmentation_that_is_replaced_has_the_new_hash(full: Path) -> None:
    active = contents.state_settings(full)
    contents.store_segmentation(active, contents.IMAGES[0], "final", ".nii", b"another")
    assert problems(full) == []
    assert not (full / IMAGE / "final.nrrd").exists()


def test_the_state_in_either_database_is_read(each_database: str, state: Path) -> None:
    active = settings.load(state_folder=state)
    save_use(open_state(active), "1a2b3c4d", 5)
    TokenStore(state).create([Scope.search])
    assert verify_state(active) == []
    if each_database == "postgresql":
        with open_state(active).reading() as connection:
            assert connection.execute(select(uses)).all()
        code, _, error = command("admin", "state", "verify", "--accept", CBIR_STATE_FOLDER=state)
        assert (code, "--accept is for state.sqlite" in error) == (2, True)


def test_a_file_that_is_no_database_is_named_with_the_remedy(full: Path) -> None:
    (full / "state.sqlite").write_bytes(b"no database" * 1000)
    assert "state.sqlite cannot be used: file is not a database; restore it from a copy" in problems(full)[0]


def _save_and_die(folder: Path) -> None:
    database = open_state(contents.state_settings(folder))
    for number in range(3):
        save_use(database, f"{number:08x}", 7)
    os._exit(0)  # closes nothing


def test_damage_of_the_log_of_a_killed_service_is_seen_before_it_is_dropped(full: Path) -> None:
    process = get_context("fork").Process(target=_save_and_die, args=(full,))
    process.start()
    process.join()
    log = full / "state.sqlite-wal"
    flip(log, log.stat().st_size - 1)
    before = log.read_bytes()
    code, printed = verify(full)
    assert code == 1
    assert f"{log} is damaged at frame" in printed
    assert "`cbir admin state verify --accept`" in printed
    with pytest.raises(StateUnavailable, match="is damaged at frame"):
        load_uses(open_state(contents.state_settings(full)))
    assert log.read_bytes() == before
    code, printed = verify(full, "--accept")
    assert (code, "not kept: the write-ahead log" in printed) == (0, True), printed
    assert verify(full) == (0, "no problems\n")
    assert {"00000000", "00000001"} <= set(load_uses(open_state(contents.state_settings(full))))


@pytest.mark.parametrize(
    "left", ["audit.jsonl", "audit.jsonl.1", "segmentations", "tokens.json.lock", "everything"]
)
def test_a_lost_database_and_its_mark_are_no_new_state(full: Path, left: str) -> None:
    load_uses(open_state(contents.state_settings(full)))  # as every start does
    for path in list(full.iterdir()):
        if path.name.startswith("state.sqlite") or left not in (path.name, "everything"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(
        StateUnavailable, match=r"state\.sqlite is missing or empty, though a service has used it"
    ):
        load_uses(open_state(contents.state_settings(full)))
    code, printed = verify(full)
    assert (code, "restore it from a copy, or start without" in printed) == (1, True), printed
    assert not (full / "state.sqlite").exists()
    verify(full, "--accept")
    assert load_uses(open_state(contents.state_settings(full))) == {}


def test_what_a_start_leaves_is_a_new_state(tmp_path: Path) -> None:
    active = settings.load(state_folder=tmp_path, require_tokens=True, state_database=None, audit_log=None)
    TokenStore(tmp_path).create([Scope.search])
    log = open_audit_log(active, open_state(active))
    assert log
    log.close()
    assert load_uses(open_state(active)) == {}
