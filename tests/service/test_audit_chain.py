"""The chain of the audit log: whatever is changed, removed, added or reordered is found."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app as commands
from cbir.errors import InvalidInput
from service.access import audit
from service.access.audit import AuditFiles, AuditLog
from service.access.audit_chain import MAX_IMAGES, ChainHead, chain_line, read_key
from service.access.chain_check import ChainReport
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service.conftest import problem


def write(log: AuditLog, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        assert log.write(f"{number:08x}", "203.0.113.9", "search", ["0" * 32], 200)


FORGED = '{"time": "2026-01-01T00:00:00Z", "user": "dr.smith", "action": "erase", "images": []}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An audit log of ten lines."""
    write(AuditLog(tmp_path / "audit.jsonl"), 10)
    return tmp_path / "audit.jsonl"


def verify(path: Path, **options: Any) -> ChainReport:
    return AuditFiles(path).verify(**options)


def test_an_untouched_log_is_sound(path: Path) -> None:
    report = verify(path)
    assert (report.lines, report.first, report.faults, report.notes) == (10, 1, [], [])
    assert report.head == AuditFiles(path).head()
    fields = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["n"] for line in fields] == list(range(1, 11))
    assert [line["prev"] for line in fields[1:]] == [line["mac"] for line in fields[:-1]]
    write(AuditLog(path), 5)
    assert (verify(path).lines, verify(path).faults) == (15, [])


@given(data=st.data())
@hypothesis_settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_every_change_is_found(path: Path, data: st.DataObject) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    kind = data.draw(st.sampled_from(["byte", "remove", "swap", "repeat", "insert", "cut", "edit"]))
    number = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, len(lines) - 1).filter(lambda other: other != number))
    changed = list(lines)
    if kind == "byte":
        place = data.draw(st.integers(0, len(lines[number]) - 2))
        value = data.draw(
            st.integers(0, 255).filter(lambda value: value not in (lines[number][place], 10, 13))
        )
        changed[number] = lines[number][:place] + bytes([value]) + lines[number][place + 1 :]
    elif kind == "remove":
        del changed[number : number + data.draw(st.integers(1, 3))]
    elif kind == "swap":
        changed[number], changed[other] = lines[other], lines[number]
    elif kind == "repeat":
        changed.insert(other, lines[number])
    elif kind == "insert":
        changed.insert(number + 1, b'{"time": "2030-01-01T00:00:00Z", "token": null}\n')
    elif kind == "cut":
        length = data.draw(st.integers(0, len(lines[-1]) - 2))  # without its newline alone it is whole
        changed[-1] = lines[-1][:length]
    else:
        changed[number] = re.sub(rb'"address": "[^"]*"', b'"address": "198.51.100.1"', lines[number])
    copy = path.with_name("changed") / path.name
    copy.parent.mkdir(exist_ok=True)
    for suffix in (".key", ".head"):
        (copy.parent / f"audit.jsonl{suffix}").write_bytes(
            (path.parent / f"audit.jsonl{suffix}").read_bytes()
        )
    copy.write_bytes(b"".join(changed))
    assert verify(copy).faults, (kind, number, other)


def test_a_removed_end_is_found(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    assert verify(path).faults == ["lines 8 to 10 are missing at the end"]
    write(AuditLog(path), 2)
    assert "follows line 7" in verify(path).faults[0], "also after the service has gone on"
    path.unlink()
    assert verify(path).faults == ["lines 1 to 12 are missing at the end"]


def test_a_removed_end_with_its_note(path: Path) -> None:
    """Whoever removes lines and their note leaves a fault for good, and cannot forge a head noted elsewhere."""
    noted = AuditFiles(path).head()
    early = verify(path, known=(noted, ChainHead(5, json.loads(path.read_text().splitlines()[4])["mac"])))
    assert early.faults == []
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    (path.parent / "audit.jsonl.head").unlink()
    assert "note of the last line is missing" in verify(path).faults[0]
    write(AuditLog(path), 5)
    assert verify(path).lines == 13
    (fault,) = verify(path).faults
    assert fault.startswith("audit.jsonl:8: the note of the last line was missing")
    assert "the noted line 10 is missing or was changed" in verify(path, known=(noted,)).faults


@pytest.mark.parametrize("how", ["remove", "empty", "damage", "while running"])
def test_a_missing_note_is_reported(path: Path, how: str) -> None:
    note, log = path.with_name("audit.jsonl.head"), AuditLog(path)
    if how == "empty":
        note.write_bytes(b"")
    elif how == "damage":
        note.write_bytes(b"?" + note.read_bytes()[1:])
    else:
        note.unlink()
    log = log if how == "while running" else AuditLog(path)
    write(log, 2)
    report = verify(path)
    assert (report.lines, len(report.faults)) == (13, 1)
    assert report.faults[0].startswith("audit.jsonl:11: the note of the last line was missing")
    assert json.loads(path.read_text().splitlines()[10])["action"] == "chain restarted"


def test_a_missing_note_after_rotation(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(AuditLog(path, max_bytes=2000), 40)
    path.unlink()
    path.with_name("audit.jsonl.head").unlink()
    last = json.loads(AuditFiles(path).rotated()[-1].read_text().splitlines()[-1])["n"]
    write(AuditLog(path), 1)
    assert json.loads(path.read_text().splitlines()[0])["n"] == last + 1
    assert len(verify(path).faults) == 1


def test_everything_but_the_key_is_missing(path: Path) -> None:
    path.unlink()
    path.with_name("audit.jsonl.head").unlink()
    write(AuditLog(path), 1)
    assert [fault.split(": ")[0] for fault in verify(path).faults] == ["audit.jsonl:1"]


def test_the_process_stopped_before_its_first_note(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    AuditLog(path).close()
    path.with_name("audit.jsonl.head").write_bytes(b"")
    write(AuditLog(path), 1)
    assert (verify(path).lines, verify(path).faults) == (1, [])


def test_a_forged_end_is_found(path: Path) -> None:
    last = json.loads(path.read_text().splitlines()[-1])
    forged = json.dumps(last | {"n": 11, "prev": last["mac"], "mac": "0" * 32})
    path.write_text(path.read_text() + forged + "\n")
    assert "was changed" in verify(path).faults[0]


def test_rotation_by_size_continues_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, max_bytes=2000)
    write(log, 40)
    files = [*AuditFiles(path).rotated(), path]
    assert len(files) > 5
    assert [file.name for file in files[:-1]] == [f"audit.jsonl.{number}" for number in range(1, len(files))]
    assert all(file.stat().st_size <= 2000 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    report = verify(path)
    assert (report.lines, report.faults) == (40, [])
    first = json.loads(files[2].read_text().splitlines()[0])["n"]
    for file in files[:2]:
        file.unlink()
    assert f"begins at line {first}" in verify(path).faults[0]
    assert verify(path, first=first).faults == []
    files[3].unlink()
    assert "follows line" in verify(path, first=first).faults[0]


def test_a_file_that_was_moved_away_continues_too(path: Path) -> None:
    path.rename(path.with_name("audit.jsonl.1"))
    write(AuditLog(path), 3)
    report = verify(path)
    assert (report.lines, report.faults) == (13, [])


@pytest.mark.parametrize("since", [0, 3])
def test_lines_before_the_chain_are_found(tmp_path: Path, since: int) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"token": "1"}\n{"token": "2"}\n')
    write(AuditLog(path), since)
    assert verify(path).lines == since
    assert verify(path).faults == [f"audit.jsonl:{n}: a line that is not part of the chain" for n in (1, 2)]


@pytest.mark.parametrize("content", ["", "dr.smith erased all images\n", "cut"])
@pytest.mark.parametrize("note", [{"n": 0, "mac": "", "size": 0}, {"n": 0, "mac": "0" * 64, "size": 0}])
def test_a_log_made_to_look_as_before_its_first_line(path: Path, content: str, note: dict[str, Any]) -> None:
    path.write_text(content)
    path.with_name("audit.jsonl.head").write_text(json.dumps(note))
    faults = verify(path).faults
    assert "the note of the last line is not that of a log without lines" in faults
    assert (len(faults) > 1) == bool(content)


def test_a_log_without_lines_is_sound(tmp_path: Path) -> None:
    AuditLog(tmp_path / "audit.jsonl")
    report = verify(tmp_path / "audit.jsonl")
    assert (report.lines, report.faults, report.notes) == (0, [], [])


@pytest.mark.parametrize("lines", [0, 3])
def test_a_line_before_the_first_is_none_that_a_full_disk_cut_short(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "audit.jsonl"
    write(AuditLog(path), lines)
    path.write_text(f"dr.smith\n{path.read_text()}")
    assert verify(path).faults == ["audit.jsonl:1: a line that is not part of the chain"]


@pytest.mark.parametrize(
    "inserted", ["dr.smith erased all images\n", '{"user": "dr.smith", "action": "erase"\n']
)
def test_a_text_between_lines_is_none_that_a_full_disk_cut_short(path: Path, inserted: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], inserted, *lines[4:]]))
    assert "audit.jsonl:5: a line that is not part of the chain" in verify(path).faults


@pytest.mark.parametrize("cut", ["{", '{"time": "20', "\0\0\0", '{"time": "2026"\0\0', '\0\0, "hash": "1"}'])
def test_what_a_full_disk_or_a_power_cut_leaves_of_a_line_is_noted(path: Path, cut: str) -> None:
    with path.open("a") as file:
        file.write(cut)
    write(AuditLog(path), 1)
    report = verify(path)
    assert (report.lines, report.faults) == (11, [])
    assert report.notes == ["audit.jsonl:11: a line that was cut short, by a full disk for example"]


def test_a_chain_that_does_not_begin_with_its_key_is_found(path: Path) -> None:
    other = path.with_name("other") / path.name
    write(AuditLog(other), 1)
    head = ChainHead(0, json.loads(other.read_text())["prev"])
    line, _ = chain_line(read_key(path.with_name("audit.jsonl.key")), head, {"action": "search"})
    path.write_bytes(line)
    assert "audit.jsonl:1: line 1 is not the first of this chain" in verify(path).faults


@pytest.mark.parametrize(
    "name",
    ["0", "00", "01", "1", "9", "\u0663", "bak", "1.gz", "key.old", "head~", "99999999999999999999"],
)
@pytest.mark.parametrize("content", [FORGED, FORGED[:50], FORGED[:50] + "\n", "\n"])
def test_a_file_that_does_not_belong_is_found(path: Path, name: str, content: str) -> None:
    noted = AuditFiles(path).head()
    path.with_name(f"audit.jsonl.{name}").write_text(content)
    for _ in range(2):
        assert any(f"audit.jsonl.{name}" in fault for fault in verify(path, known=(noted,)).faults)
        write(AuditLog(path), 1)


def test_a_newline_that_a_full_disk_kept_from_a_rotated_file_breaks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(AuditLog(path), 3)
    os.truncate(path, path.stat().st_size - 1)
    write(AuditLog(path, max_bytes=path.stat().st_size), 2)
    assert len(AuditFiles(path).rotated()) == 1
    report = verify(path)
    assert (report.lines, report.faults) == (5, [])


def test_a_folder_with_the_name_of_a_rotated_file(path: Path) -> None:
    path.with_name("audit.jsonl.3").mkdir()
    assert "audit.jsonl.3" in verify(path).faults[0]
    write(AuditLog(path), 1)


def test_forged_lines_around_a_chain_that_was_rotated(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(AuditLog(path, 2000), 40)
    for file in (*AuditFiles(path).rotated(), path):
        text = file.read_text()
        for forged in (FORGED + text, text + FORGED):
            file.write_text(forged)
            assert verify(path).faults, file
            file.write_text(text)
    assert verify(path).faults == []
    last = AuditFiles(path).rotated()[-1]
    last.write_text(FORGED[:50])
    path.unlink()
    assert any("no line of the chain" in fault for fault in verify(path).faults)


def test_forged_lines_before_a_chain_whose_beginning_was_archived(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(AuditLog(path, 2000), 40)
    oldest, second = AuditFiles(path).rotated()[:2]
    first = json.loads(second.read_text().splitlines()[0])["n"]
    oldest.write_text(FORGED)
    assert "audit.jsonl.1" in verify(path, first=first).faults[0]
    oldest.unlink()
    second.write_text(FORGED + second.read_text())
    assert "audit.jsonl.2" in verify(path, first=first).faults[0]


def test_the_process_stopped_between_line_and_note(path: Path) -> None:
    note = path.with_name("audit.jsonl.head").read_bytes()
    write(AuditLog(path), 1)
    path.with_name("audit.jsonl.head").write_bytes(note)
    assert verify(path).faults == []
    write(AuditLog(path), 2)
    assert (verify(path).lines, verify(path).faults) == (13, [])


@pytest.mark.parametrize("max_bytes", [0, 2000])
def test_a_power_cut_lost_the_last_notes(path: Path, max_bytes: int) -> None:
    note = path.with_name("audit.jsonl.head").read_bytes()
    write(AuditLog(path, max_bytes), 5)
    path.with_name("audit.jsonl.head").write_bytes(note)
    assert verify(path).faults == []
    assert "lines 11 to 15 were not noted" in verify(path).notes[-1]
    write(AuditLog(path, max_bytes), 2)
    report = verify(path)
    assert (report.lines, report.faults, report.notes) == (17, [], [])


WRITE = """
import sys
from pathlib import Path
from service.access.audit import AuditLog
log = AuditLog(Path(sys.argv[1]), 20_000)
for number in range(100):
    assert log.write(f"{number:08x}", "203.0.113.9", "search", ["0" * 32], 200)
"""


@pytest.mark.slow
def test_two_processes_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    processes = [subprocess.Popen([sys.executable, "-c", WRITE, path]) for _ in range(2)]
    assert [process.wait(300) for process in processes] == [0, 0]
    report = verify(path)
    assert (report.lines, report.faults) == (200, [])


def test_a_line_is_short_whatever_was_shown(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("1", "", "list", [f"{number:032x}" for number in range(1000)], 200)
    text = (tmp_path / "audit.jsonl").read_text()
    assert len(text) < 3000
    line = json.loads(text)
    assert (len(line["images"]), line["image_count"]) == (MAX_IMAGES, 1000)


def test_the_commands(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_STATE_FOLDER", str(path.parent))
    noted = CliRunner().invoke(commands, ["admin", "audit-log", "head"]).output.strip()
    assert noted == str(AuditFiles(path).head())
    sound = CliRunner().invoke(commands, ["admin", "audit-log", "verify", "--head", noted])
    assert (sound.exit_code, "10 lines, unbroken" in sound.output) == (0, True), sound.output
    path.write_text(path.read_text().replace("search", "delete", 1))
    broken = CliRunner().invoke(commands, ["admin", "audit-log", "verify", "--file", str(path)])
    assert broken.exit_code == 1
    assert "audit.jsonl:1: line 1 was changed" in broken.output
    with pytest.raises(InvalidInput, match="cannot be read"):
        AuditFiles(path.with_name("none")).verify()


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_what_a_full_disk_does(
    indexed: Path, tmp_path: Path, ids: list[str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = TokenStore(tmp_path / "state")
    active = settings.load(require_tokens=True, state_folder=tokens.file.parent, audit_failure=mode)
    client = create_app(indexed, active).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {tokens.create([Scope.search])[1]}"

    def status() -> int:
        return int(client.post("/v1/search", json={"image_id": ids[0], "k": 1}).status_code)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    assert status() == 200
    with monkeypatch.context() as patched:
        patched.setattr(audit.os, "write", full)
        answers = [client.post("/v1/search", json={"image_id": ids[0], "k": 1}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200 if mode == "open" else 503] * 3
        if mode == "closed":
            assert "audit log" in problem(answers[0], 503)
            assert not any(name in answer.text for answer in answers for name in ids)
        assert client.get("/v1/collections").status_code == 200, "what is not logged is not refused"
    assert status() == 200
    report = verify(tokens.file.parent / "audit.jsonl")
    assert report.faults == []
