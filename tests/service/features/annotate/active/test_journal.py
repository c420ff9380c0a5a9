"""The journal of judgements: durable, repaired after a kill, never overwritten."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.errors import CollectionBusy, InvalidInput
from service.features.annotate.active.judgement_journal import (
    HEADER,
    ImageGrade,
    Journal,
    PairAnswer,
    PairJudgement,
    Undo,
    read_journal,
    utc_now,
    valid_grades,
    valid_judgements,
)

IMAGES = [f"{number:032x}" for number in range(9)]


def judgement(
    number: int, answer: str = "first", who: str = "Ada", pair: tuple[int, int] = (0, 1)
) -> PairJudgement:
    return PairJudgement(
        name=f"judgement-{number}",
        at=utc_now(),
        who=who,
        seconds=1.25,
        first=IMAGES[pair[0]],
        second=IMAGES[pair[1]],
        answer=PairAnswer(answer),
        round=1,
    )


def undo(number: int, of: int, who: str = "Ada") -> Undo:
    return Undo(name=f"take-back-{number}", at=utc_now(), who=who, undoes=f"judgement-{of}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study" / "judgements.jsonl"


def test_entries_come_back_with_who_when_and_how_long(path: Path) -> None:
    before = datetime.now(UTC)
    with closing(Journal(path)) as journal:
        assert journal.entries == []
        assert journal.add(judgement(1))
        assert journal.add(undo(1, 1))
    found = read_journal(path)
    assert found == journal.entries
    (first, second) = found
    assert isinstance(first, PairJudgement)
    assert isinstance(second, Undo)
    assert (first.who, first.seconds, first.answer) == ("Ada", 1.25, "first")
    assert first.at.utcoffset().total_seconds() == 0  # type: ignore[union-attr]
    assert (first.at - before).total_seconds() < 60
    assert path.stat().st_mode & 0o077 == 0


def test_the_file_only_grows(path: Path) -> None:
    with closing(Journal(path)) as journal:
        journal.add(judgement(1))
        earlier = path.read_bytes()
        journal.add(undo(1, 1))
        journal.add(judgement(2, "second"))
    with closing(Journal(path)) as journal:
        journal.add(judgement(3, "alike", pair=(2, 3)))
    assert path.read_bytes().startswith(earlier)
    assert len(read_journal(path)) == 4


def test_sent_twice_is_written_once(path: Path) -> None:
    with closing(Journal(path)) as journal:
        assert journal.add(judgement(1))
        assert not journal.add(judgement(1))
    with closing(Journal(path)) as journal:
        assert not journal.add(judgement(1))
        assert not journal.add(judgement(1).model_copy(update={"round": 2})), (
            "the study has gone on meanwhile"
        )
        with pytest.raises(InvalidInput, match="another entry"):
            journal.add(judgement(1, "second"))
    assert len(read_journal(path)) == 1


def test_what_does_not_fit_is_refused_and_leaves_no_trace(path: Path) -> None:
    with closing(Journal(path)) as journal:
        journal.add(judgement(1))
        for wrong in (judgement(2, pair=(3, 3)), undo(1, 9), undo(2, 1, who="Bob")):
            with pytest.raises(InvalidInput):
                journal.add(wrong)
        assert len(journal.entries) == len(read_journal(path)) == 1
    for field, value in (
        ("seconds", float("nan")),
        ("seconds", -1),
        ("who", ""),
        ("first", "x"),
        ("name", "a b"),
    ):
        with pytest.raises(ValueError, match=field):
            PairJudgement.model_validate(judgement(1).model_dump() | {field: value})


def test_entries_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.features.annotate.active.judgement_journal.MAX_ENTRIES", 2)
    with closing(Journal(path)) as journal:
        assert journal.add(judgement(1))
        assert journal.add(judgement(2))
        assert journal.add(undo(1, 1)), "a wrong last answer can be taken back"
        for entry in (judgement(3), undo(2, 1)):
            with pytest.raises(InvalidInput, match="at most 2 answers"):
                journal.add(entry)
        assert not journal.add(judgement(1)), "a retry of what is there"
    assert len(read_journal(path)) == 3


def test_standing_judgements() -> None:
    entries = [
        judgement(1),
        judgement(2, "second", pair=(1, 0)),  # the same pair from the other side: the later one holds
        judgement(3, "skip", pair=(2, 3)),
        judgement(4, "alike", who="Bob"),
        judgement(5, pair=(4, 5)),
        undo(1, 5),
    ]
    assert [one.name for one in valid_judgements(entries)] == ["judgement-2", "judgement-3", "judgement-4"]
    assert [one.name for one in valid_judgements([*entries, undo(2, 2)])] == [
        "judgement-1",
        "judgement-3",
        "judgement-4",
    ]
    assert valid_judgements([]) == []


def test_grades_stand_beside_judgements(path: Path) -> None:
    def grade(number: int, value: float, who: str = "Ada", image: int = 0) -> ImageGrade:
        fields = {"name": f"judgement-{number}", "at": utc_now(), "who": who, "seconds": 9.5}
        return ImageGrade.model_validate(fields | {"image": IMAGES[image], "grade": value})

    given = [grade(1, 2), judgement(2), grade(3, 4), grade(4, 1, "Bob"), grade(5, 0, image=1)]
    with closing(Journal(path)) as journal:
        for entry in [*given, undo(1, 3), undo(2, 5)]:
            assert journal.add(entry)
        for wrong in (undo(3, 4), undo(4, 99), grade(1, 3)):
            with pytest.raises(InvalidInput):
                journal.add(wrong)
    entries = read_journal(path)
    assert entries[:5] == given
    assert [(one.who, one.grade) for one in valid_grades(entries)] == [("Ada", 2), ("Bob", 1)]
    assert valid_judgements(entries) == [given[1]]
    for value in (float("nan"), float("inf"), "x"):
        with pytest.raises(ValueError, match="grade"):
            grade(9, value)  # type: ignore[arg-type]


@given(st.data())
def test_cut_anywhere_it_loses_only_the_torn_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "j"
    with closing(Journal(path)) as journal:
        at = utc_now().replace(
            microsecond=0
        )  # or a line's length, and with it what is drawn, would go by the clock
        for number in range(4):
            journal.add(judgement(number, pair=(number, number + 1)).model_copy(update={"at": at}))
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    tail = data.draw(st.sampled_from([b"", b"\0" * 40])) if whole[cut - 1 : cut] == b"\n" else b""
    path.write_bytes(whole[:cut] + tail)
    kept = max(0, whole[: cut + 1].count(b"\n") - 1)  # a line that lacks nothing but its newline is whole
    assert read_journal(path) == journal.entries[:kept] or cut < len(HEADER)
    with closing(Journal(path)) as again:
        assert again.entries == journal.entries[:kept]
        again.add(judgement(99))
    assert [entry.name for entry in read_journal(path)][-1] == "judgement-99"
    assert len(read_journal(path)) == kept + 1


@pytest.mark.parametrize("content", [b"path,label\n1,2\n", b'{"a": 1}\n', b"\0\0\0", HEADER[:-2] + b"x"])
def test_a_foreign_file_is_refused_and_left_as_it_is(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="not a journal"):
        Journal(path)
    with pytest.raises(InvalidInput, match="not a journal"):
        read_journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("line", [b"", b"{}", b"not json", b'{"kind": "undo"}', b"9" * 5000])
def test_damage_amid_the_file_is_told_with_its_line(path: Path, line: bytes) -> None:
    with closing(Journal(path)) as journal:
        journal.add(judgement(1))
        journal.add(judgement(2))
    lines = path.read_bytes().split(b"\n")
    lines[1] = line
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(InvalidInput, match="line 2 of"):
        Journal(path)
    assert path.read_bytes() == b"\n".join(lines)


def test_one_writer_at_a_time(path: Path) -> None:
    with closing(Journal(path)) as journal:
        with pytest.raises(CollectionBusy, match="another process is writing"):
            Journal(path)
        assert read_journal(path) == journal.entries
    Journal(path).close()


def test_without_a_file_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_journal(tmp_path / "none")


FULL = """
import resource, sys
from pathlib import Path
from tests.service.features.annotate.active.test_journal import judgement
from service.features.annotate.active.judgement_journal import Journal
from cbir.errors import StorageFull
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
journal.add(judgement(1))
size = Path(sys.argv[1]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
try:
    journal.add(judgement(2, pair=(2, 3)))
except StorageFull as error:
    print("full:", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.add(judgement(2, pair=(2, 3)))
"""


def test_a_full_disk_loses_nothing(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=400, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr
    assert "is full; no data is damaged" in done.stdout
    assert [entry.name for entry in read_journal(path)] == ["judgement-1", "judgement-2"]


WRITING = """
import sys
from pathlib import Path
from tests.service.features.annotate.active.test_journal import judgement
from service.features.annotate.active.judgement_journal import Journal
journal = Journal(Path(sys.argv[1]))
first = len(journal.entries)
for number in range(first, 100_000):
    journal.add(judgement(number))
    print(number, flush=True)
"""


def test_kill_loses_nothing_that_was_acknowledged(path: Path) -> None:
    acknowledged: list[str] = []
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert process.stdout is not None
        acknowledged += [process.stdout.readline().strip() for _ in range(20)]
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += process.stdout.read().split()
        process.wait(300)
        process.stdout.close()
    names = [entry.name for entry in read_journal(path)]
    assert len(set(names)) == len(names)
    assert {f"judgement-{number}" for number in acknowledged if number} <= set(names)
    assert len(names) >= 60
