"""An archive of which some requests fail: pages that are halved, instances that come later, refused credentials."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
import requests

from cbir import settings
from cbir.errors import ArchiveFailed
from cbir.images import Limits
from indexer.describe_instance import Fate, InstanceFilter
from indexer.dicomweb import archive_requests, crawl
from indexer.dicomweb.archive_items import ArchiveDenied, ArchiveItem, ArchiveStudy, ItemRefused, StudyFilter
from indexer.dicomweb.archive_requests import RepeatedRequests, open_session
from indexer.dicomweb.crawl import Crawl, PostponedStudies, RefusedItems
from indexer.dicomweb.dicomweb_archive import DicomwebArchive
from indexer.dicomweb.orthanc_lists import OrthancChanges, OrthancLists
from indexer.index_request import open_collection
from indexer.intake import Intake
from tests.indexer.dicomweb.small_archive import SmallArchive, serving
from tests.indexer.dicomweb.test_orthanc import count, until
from tests.indexer.receiving import instances_in, slices

MOST = 2**20


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_requests, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def small() -> SmallArchive:
    return SmallArchive(list(slices(10, 32)))


@contextmanager
def crawling(archive: SmallArchive, place: Path, rows: list[tuple[str, ...]]) -> Iterator[Crawl]:
    """A crawl of the archive into `place`; `rows` gets those of its report."""
    with serving(archive) as url, open_collection(place) as opened:
        intake = Intake(
            opened,
            instance_filter=InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=settings.load(),
        )
        remote = DicomwebArchive(url, open_session([], MOST))
        remote.check()
        refused = RefusedItems(lambda *cells: rows.append(cells))
        try:
            yield Crawl(remote, intake, StudyFilter(), 2, Event(), refused, retry_seconds=0.05)
        finally:
            intake.close()


def covers(path: str, place: int) -> bool:
    """Whether a page of instances has the result at a place, from 0."""
    found = re.search(r"/instances\?.*limit=(\d+)", path)
    offset = re.search(r"offset=(\d+)", path)
    start = int(offset.group(1)) if offset else 0
    return bool(found) and start <= place < start + int(found.group(1) if found else 0)


def test_a_page_that_fails_is_halved_until_one_result_is_left(
    small: SmallArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_requests, "PAGE", 4)
    small.failure = lambda path: 500 if covers(path, 6) else 0
    rows: list[tuple[str, ...]] = []
    with crawling(small, tmp_path / "collection", rows) as crawl:
        crawl()
        assert +crawl.intake.counts == {Fate.stored: 9, Fate.undelivered: 1}
        small.failure = lambda path: 0
        time.sleep(2 * crawl.retry_seconds)
        crawl()
        assert +crawl.intake.counts == {Fate.stored: 10}
    reason = "instance 7 of the archive's list cannot be listed: the archive answered 500"
    assert rows == [(small.study, small.series, "", reason)]
    assert sorted(instances_in(tmp_path / "collection")) == sorted(small.instances)


def test_a_list_that_always_fails_ends(
    small: SmallArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_requests, "MOST_GAPS", 5)
    rows: list[tuple[str, ...]] = []
    with crawling(small, tmp_path / "collection", rows) as crawl:
        small.failure = lambda path: 500 if "/instances?" in path else 0
        crawl()
        assert +crawl.intake.counts == {Fate.undelivered: 1}
        small.failure = lambda path: 500 if "/studies?" in path and "2.25.0" not in path else 0
        with pytest.raises(ArchiveFailed, match="does not list its studies"):
            crawl()
        small.failure = lambda path: 400 if "/studies?" in path and "limit=1&" not in path else 0
        with pytest.raises(ArchiveFailed, match="answered 400"):
            crawl()
    assert [row[:2] for row in rows] == [(small.study, small.series)]


def test_an_archive_whose_first_study_is_broken_is_one(small: SmallArchive) -> None:
    small.failure = lambda path: 500 if path.endswith("studies?limit=1") else 0
    with serving(small) as url:
        DicomwebArchive(url, open_session([], MOST)).check()


@pytest.mark.parametrize("status", [500, 404, 429])
def test_a_watch_tries_an_instance_again(small: SmallArchive, status: int, tmp_path: Path) -> None:
    uid = list(small.instances)[3]
    small.failure = lambda path: status if path.endswith(f"/instances/{uid}") else 0
    rows: list[tuple[str, ...]] = []
    place = tmp_path / "collection"
    with crawling(small, place, rows) as crawl:
        crawl()
        assert +crawl.intake.counts == {Fate.stored: 9, Fate.undelivered: 1}
        watching = Thread(target=crawl.watch, args=(None, 0.05))
        watching.start()
        try:
            until(lambda: small.fetched.count(uid) == 0 and len(small.asked) > 40)
            small.failure = lambda path: 0
            until(lambda: count(place) == 10)
        finally:
            crawl.stop.set()
            watching.join()
        assert crawl.intake.counts[Fate.undelivered] == 0
    assert rows == [(small.study, small.series, uid, f"the archive answered {status}")]


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("part", ["/series?", "/instances?", "/instances/"])
def test_refused_credentials_end_a_watch_at_the_first_answer(
    small: SmallArchive, status: int, part: str, tmp_path: Path
) -> None:
    rows: list[tuple[str, ...]] = []
    with crawling(small, tmp_path / "collection", rows) as crawl:
        small.failure = lambda path: status if part in path else 0
        with pytest.raises(ArchiveDenied, match=f"answered {status}: credentials are needed"):
            crawl.watch(None, 0.01)
    assert not rows
    assert sum(part in path for path, _ in small.asked) <= 4  # those under way


@pytest.mark.parametrize("status", [404, 410])
def test_a_study_that_is_gone_is_skipped(small: SmallArchive, status: int, tmp_path: Path) -> None:
    small.failure = lambda path: status if "/series?" in path else 0
    rows: list[tuple[str, ...]] = []
    with crawling(small, tmp_path / "collection", rows) as crawl:
        crawl()
        assert +crawl.intake.counts == {Fate.gone: 1}
    assert rows == [(small.study, "", "", "gone: it was deleted from the archive after it was listed")]


@pytest.mark.parametrize("status", [404, 500])
def test_a_series_without_images_that_is_not_listed_stops_no_other(status: int, tmp_path: Path) -> None:
    report, *others = slices(4, 32)
    report.SeriesInstanceUID = "1.2.826.9"
    archive = SmallArchive([report, *others])
    archive.modalities["1.2.826.9"] = "SR"
    archive.failure = lambda path: status if "1.2.826.9/instances?" in path else 0
    rows: list[tuple[str, ...]] = []
    with crawling(archive, tmp_path / "collection", rows) as crawl:
        crawl()
        assert +crawl.intake.counts == {Fate.stored: 3, Fate.undelivered: 1}
    assert rows == [(archive.study, "1.2.826.9", "", f"cannot be listed: the archive answered {status}")]


def test_an_answer_that_lists_nothing_is_refused(small: SmallArchive, tmp_path: Path) -> None:
    """As an error in place of a list, with the status of success."""
    place = f"/dicom-web/studies/{small.study}/series"
    reason = "its answer is no list of UIDs"
    rows: list[tuple[str, ...]] = []
    with crawling(small, tmp_path / "collection", rows) as crawl:
        small.fixed = {f"{place}/{small.series}/instances": {"error": "busy"}}
        crawl()
        small.fixed = {place: [{"error": "busy"}]}
        crawl.crawl_study(ArchiveStudy(small.study))
        assert +crawl.intake.counts == {Fate.undelivered: 2}
        small.fixed = {"/dicom-web/studies": {"error": "busy"}}
        with pytest.raises(ArchiveFailed, match=reason):
            crawl()
    assert rows == [
        (small.study, small.series, "", f"cannot be listed: {reason}"),
        (small.study, "", "", reason),
    ]


def test_an_instance_that_brings_the_archive_down_is_refused(small: SmallArchive) -> None:
    """Each try ends with an archive that is silent for a moment."""
    silent = [0]  # requests that follow

    def fails(path: str) -> int:
        if "/instances/" in path:
            silent[0] = 2
            return 500
        silent[0] -= 1
        return 503 if silent[0] >= 0 else 0

    small.failure = fails
    lines: list[str] = []
    with serving(small) as url:
        archive = DicomwebArchive(url, open_session([], MOST))
        archive.repeated.report = lines.append
        with pytest.raises(ItemRefused, match="the archive answered 500"):
            archive.fetch(ArchiveItem(small.study, small.series, "1.2"))
    assert lines[0].startswith("the archive does not answer: it answered 503")
    assert len(lines) == 2 * archive_requests.TRIES
    assert lines[-1] == "the archive answers again"


def test_what_orthanc_says_of_its_changes(small: SmallArchive) -> None:
    session = open_session([], MOST)
    with serving(small) as url:
        small.failure = lambda path: 503
        with pytest.raises(ArchiveFailed, match="answered 503, perhaps while it restarts"):
            OrthancChanges(url, session)
        small.failure = lambda path: 401
        with pytest.raises(ArchiveDenied, match="credentials are needed"):
            OrthancChanges(url, session)
        small.failure = lambda path: 404
        with pytest.raises(ArchiveFailed, match="name Orthanc's own address"):
            OrthancChanges(url, session)
    with pytest.raises(ArchiveFailed, match="does not answer: the connection was refused or cut"):
        OrthancChanges(url, session)


@pytest.mark.parametrize(
    ("day", "matches"),
    [
        ("20200101", True),
        ("20200131", True),
        ("20191231", False),
        ("20200201", False),
        ("", False),
        (None, True),
    ],
)
def test_dates_of_announced_studies(day: str | None, matches: bool) -> None:
    chosen = StudyFilter(since="20200101", until="20200131")
    assert chosen.matches_study(ArchiveStudy("1.2", day=day)) is matches
    assert StudyFilter().matches_study(ArchiveStudy("1.2", day=day))
    assert StudyFilter(until="20200131").matches_study(ArchiveStudy("1.2", day=day)) is (
        day not in ("", "20200201")
    )


def test_a_later_silence_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_requests, "SILENT", 5)
    problems: list[str] = []
    fails = [True]

    def request() -> str:
        if fails and fails.pop():
            raise requests.ConnectionError
        return "answer"

    repeated = RepeatedRequests(lambda: problems.pop() if problems else "")
    problems += ["down"] * 100
    with pytest.raises(ArchiveFailed, match="stopped answering: down"):
        repeated(request)
    assert repeated(request) == "answer"
    time.sleep(6 * archive_requests.PAUSE_SECONDS)
    problems[:], fails[:] = ["down"], [True]
    assert repeated(request) == "answer", "the archive was silent for a moment"


def test_an_answer_that_is_not_json_is_named_as_such() -> None:
    def request() -> str:
        raise requests.JSONDecodeError("no", "", 0)

    with pytest.raises(ItemRefused, match="cannot be understood"):
        RepeatedRequests(lambda: "")(request, 2)


def test_lists_of_orthanc_that_do_not_go_on_end(small: SmallArchive) -> None:
    small.fixed = {
        "/tools/find": [{"MainDicomTags": {"SOPInstanceUID": "1.2.3"}}],
        "/changes": {"Changes": [{"Seq": 5, "ChangeType": "Deleted", "ID": ""}], "Done": False, "Last": 1},
    }
    with serving(small) as url:
        orthanc, session = url.removesuffix("/dicom-web"), open_session([], MOST)
        assert list(OrthancLists(orthanc, session).find("Instance", {})) == [
            {"00080018": {"Value": ["1.2.3"]}}
        ]
        assert list(OrthancChanges(orthanc, session).stable_studies()) == []
    assert len(small.asked) < 10


def test_pauses_grow_until_a_study_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(crawl.time, "monotonic", lambda: now[0])
    studies, study = PostponedStudies(1.0), ArchiveStudy("1.2", 5)
    studies.postpone(study)
    for pause in (1.0, 2.0, 4.0):
        assert studies.waits(study)
        assert not studies.waits(ArchiveStudy("1.2", 6)), "it has got another instance"
        now[0] += 0.9 * pause
        assert not studies.due()
        now[0] += 0.1 * pause
        assert studies.due() == [study]
        assert not studies.waits(study)
        studies.postpone(study)
    studies.remove(study)
    assert not studies.waits(study)


@pytest.mark.parametrize("status", [408, 429, 500])
def test_answers_that_may_change_are_asked_for_again(small: SmallArchive, status: int) -> None:
    answers = [status]
    small.failure = lambda path: answers.pop() if answers and "/series" in path else 0
    with serving(small) as url:
        archive = DicomwebArchive(url, open_session([], MOST))
        assert [series.uid for series in archive.series(small.study)] == [small.series]
