"""Crawling an archive that wants credentials, speaks TLS, or dies on the way."""

import json
import shutil
from pathlib import Path
from threading import Event

import pytest

from cbir import settings
from cbir.errors import ArchiveFailed, InvalidInput
from cbir.images import Limits
from cbir.ingest.archive_client import PASSWORD, TOKEN, USER
from indexer.describe_instance import InstanceFilter
from indexer.dicomweb import archive_requests
from indexer.dicomweb.archive_items import ArchiveItem, StudyFilter
from indexer.dicomweb.archive_requests import open_session
from indexer.dicomweb.crawl import Crawl
from indexer.dicomweb.dicomweb_archive import DicomwebArchive
from indexer.dicomweb.orthanc_lists import OrthancChanges
from indexer.index_request import open_collection
from indexer.intake import Intake
from tests.indexer.commands import call, without_progress
from tests.indexer.dicomweb.small_archive import SmallArchive, basic, certificate, serving
from tests.indexer.receiving import instances_in, slices

MOST = 2**20
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


def crawl(url: str, place: Path, code: int = 0, *options: str | Path, **environment: str) -> str:
    """What `cbir index dicomweb` printed, to either stream, without progress."""
    command = ("index", "dicomweb", url, "--collection", place, "--jobs", "1", "--format", "json")
    printed, errors = call(*command, *options, code=code, **environment)
    return printed + without_progress(errors)


@needs_openssl
def test_over_tls_with_credentials_from_the_environment(tmp_path: Path) -> None:
    signed = certificate(tmp_path)
    place = tmp_path / "collection"
    archive = SmallArchive(list(slices(3, 32)), basic("radiology", "pässłord:2"))
    who = {USER: "radiology", PASSWORD: "pässłord:2"}
    with serving(archive, signed) as url:
        assert json.loads(crawl(url, place, 0, "--authority", signed[0], **who))["stored"] == 3
        assert "its certificate is not trusted" in crawl(url, tmp_path / "none", 2, **who)
        wrong = crawl(url, tmp_path / "none", 2, "--authority", signed[0], **(who | {PASSWORD: "hunter2"}))
        assert "answered 401: credentials are needed" in wrong
        assert "hunter2" not in wrong
        assert basic("radiology", "hunter2") not in wrong
    assert not (tmp_path / "none").exists()
    assert len(instances_in(place)) == 3


def test_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(SmallArchive(list(slices(1, 32)), "Bearer a.b.c")) as url:
        monkeypatch.setenv(TOKEN, "a.b.c")
        DicomwebArchive(url, open_session([], MOST)).check()
        monkeypatch.setenv(TOKEN, "c.b.a")
        with pytest.raises(ArchiveFailed, match="401") as caught:
            DicomwebArchive(url, open_session([], MOST)).check()
        assert "c.b.a" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "token"), [("X-Key: hunter2", "hunter2"), ("authorization: Bearer hunter2", "")]
)
def test_credentials_are_not_sent_in_the_clear(
    header: str, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, token)
    place, url = tmp_path / "collection", "http://archive.invalid:8042/dicom-web"
    said = crawl(url, place, 2, "--header", header)
    assert "the archive's address http://archive.invalid:8042 must begin with https://" in said
    assert "hunter2" not in said
    assert not place.exists()
    session = open_session([header], MOST)
    with serving(SmallArchive(list(slices(1, 32)))) as url:
        DicomwebArchive(url, session).check()
    with pytest.raises(InvalidInput, match="must begin with https://"):
        OrthancChanges("http://archive.invalid:8042", session)


@needs_openssl
def test_a_certificate_for_another_address_is_not_trusted(tmp_path: Path) -> None:
    signed = certificate(tmp_path, "127.0.0.2")
    with (
        serving(SmallArchive(list(slices(1, 32))), signed) as url,
        pytest.raises(ArchiveFailed, match="certificate is not trusted"),
    ):
        DicomwebArchive(url, open_session([], MOST, signed[0])).check()


@pytest.mark.parametrize(
    "told", [{USER: "radiology", PASSWORD: "hunter2"}, {TOKEN: "a.b.c"}], ids=["basic", "bearer"]
)
def test_redirects_to_another_server_are_not_followed(
    told: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    ours, other = SmallArchive(list(slices(1, 32))), SmallArchive(list(slices(1, 32)))
    with serving(other) as elsewhere, serving(ours) as url:
        ours.elsewhere = elsewhere.removesuffix("/dicom-web")
        with pytest.raises(ArchiveFailed, match=f"redirects to {ours.elsewhere}.*configure that address"):
            DicomwebArchive(url, open_session(["X-Key: secret"], MOST)).check()
        ours.elsewhere = elsewhere.removesuffix("/dicom-web").replace("127.0.0.1", "localhost")
        said = crawl(url, tmp_path / "none", 2, "--header", "X-Key: secret", **told)
    assert f"redirects to {ours.elsewhere}" in said
    assert "secret" not in said
    assert [key for _, key in ours.asked] == ["secret"] * 2
    assert all(ours.said)
    assert other.connections == 0
    assert not (tmp_path / "none").exists()


def test_an_instance_that_is_elsewhere_is_not_fetched() -> None:
    ours, other = SmallArchive(list(slices(1, 32))), SmallArchive(list(slices(1, 32)))
    with serving(other) as elsewhere, serving(ours) as url:
        archive = DicomwebArchive(url, open_session(["X-Key: secret"], MOST))
        archive.check()
        ours.elsewhere = elsewhere.removesuffix("/dicom-web")
        with pytest.raises(ArchiveFailed, match="redirects to"):
            archive.fetch(ArchiveItem(ours.study, ours.series, next(iter(ours.instances))))
        with pytest.raises(ArchiveFailed, match="redirects to"):
            OrthancChanges(url.removesuffix("/dicom-web"), archive.session)
    assert other.connections == 0


@needs_openssl
def test_the_certificate_of_the_client_is_for_the_archive(tmp_path: Path) -> None:
    signed = certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_text(signed[0].read_text() + signed[1].read_text())
    ours, other = SmallArchive(list(slices(1, 32))), SmallArchive(list(slices(1, 32)))
    with serving(other, signed) as elsewhere, serving(ours, signed) as url:
        session = open_session([], MOST, signed[0], both)
        DicomwebArchive(url, session).check()
        ours.elsewhere = elsewhere.removesuffix("/dicom-web")
        with pytest.raises(ArchiveFailed, match="redirects to"):
            DicomwebArchive(url, session).check()
        ours.elsewhere = ours.elsewhere.replace("https", "http")
        with pytest.raises(ArchiveFailed, match="redirects to http://"):
            DicomwebArchive(url, session).check()
    assert other.connections == 0


def test_redirects_of_the_same_server_are_followed(tmp_path: Path) -> None:
    archive = SmallArchive(list(slices(2, 32)))
    with serving(archive) as url:
        moved = url.replace("dicom-web", "moved")
        said = crawl(moved, tmp_path / "collection", 0, "--header", "X-Key: secret")
        assert json.loads(said)["stored"] == 2
        assert {key for _, key in archive.asked} == {"secret"}
        archive.elsewhere = url.removesuffix("/dicom-web")  # round and round
        with pytest.raises(ArchiveFailed, match="redirects without end"):
            DicomwebArchive(url, open_session([], MOST)).check()


@pytest.mark.parametrize("token", ["a b", "a.b.c\n", "a\u0142"])
def test_a_token_that_cannot_be_sent_is_told_of_and_not_shown(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(InvalidInput, match=TOKEN) as caught:
        open_session([], MOST)
    assert token.strip() not in str(caught.value)


def test_an_archive_that_dies_between_pages_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_requests, "PAGE", 4)
    monkeypatch.setattr(archive_requests, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("indexer.dicomweb.crawl.BATCH", 4)
    archive = SmallArchive(list(slices(10, 32)))
    place = tmp_path / "collection"
    with serving(archive) as url, open_collection(place) as opened:
        intake = Intake(
            opened,
            instance_filter=InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=settings.load(),
        )

        def crawled(filters: StudyFilter = StudyFilter()) -> None:
            Crawl(DicomwebArchive(url, open_session([], MOST)), intake, filters, jobs=2, stop=Event())()

        crawled(StudyFilter(modalities=("MR",)))
        crawled(StudyFilter(body_parts=("HEAD",)))
        assert archive.fetched == []  # of what does not match nothing is
        archive.dies_after = 3 + 4  # lists of studies, series and instances, and the first page's four
        with pytest.raises(
            ArchiveFailed, match="what was fetched is in the collection, run the same command again"
        ):
            crawled()
        assert archive.pages == [0]
        assert set(instances_in(place)) == set(list(archive.instances)[:4])
        archive.dies_after = None
        crawled()
        intake.close()
    assert sorted(instances_in(place)) == sorted(archive.instances)
    assert sorted(archive.fetched) == sorted(archive.instances)  # none of them twice


def test_prefixes_headers_and_filters(tmp_path: Path) -> None:
    archive = SmallArchive(list(slices(2, 32)))
    place = tmp_path / "collection"
    prefixes = ("--qido-prefix", "find", "--wado-prefix", "give", "--header", "X-Key: abc")
    with serving(archive) as url:
        days = ("--since", "20200101", "--until", "20200131", "--modality", "ct", "--body-part", "chest")
        assert json.loads(crawl(url, place, 0, *prefixes, *days))["stored"] == 2
    assert "no answer from" in crawl(url, place, 2)
    assert len(instances_in(place)) == 2
    searched = [path for path, _ in archive.asked if "/find/" in path]
    given = [path for path, _ in archive.asked if "/give/" in path]
    assert len(searched) + len(given) == len(archive.asked)
    assert len(given) == 2
    assert any("StudyDate=20200101-20200131" in path and "ModalitiesInStudy=CT" in path for path in searched)
    assert {key for _, key in archive.asked} == {"abc"}
