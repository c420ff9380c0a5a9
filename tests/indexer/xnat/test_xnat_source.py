"""Images of an XNAT server as a source, with a small server of its REST interface on loopback."""

import gzip
from pathlib import Path

import pytest

from cbir.errors import InvalidInput, NotFound
from cbir.images import Limits
from cbir.ingest import object_store, xnat_session
from cbir.ingest.object_store import ObjectStoreFailed, StoreSilent, find_object, find_objects, read_url
from tests.indexer.commands import call
from tests.indexer.xnat.conftest import FILES, ONE, forget_session
from tests.indexer.xnat.small_xnat import (
    ALIAS,
    PASSWORD,
    SECRET,
    USER,
    Scan,
    Session,
    SmallXnat,
    Subject,
    serving_xnat,
)

pytest.importorskip("httpx")
pytestmark = pytest.mark.slow


def test_a_part_of_a_project(xnat: SmallXnat) -> None:
    def found(url: str) -> list[str]:
        return [stored.url.removeprefix("xnat://BONES/") for stored in find_objects(url)]

    assert len(found("xnat://BONES/XNAT_S00002")) == 2
    assert found("xnat://BONES/XNAT_S00001/XNAT_E00002/") == ["XNAT_S00001/XNAT_E00002/1/DICOM/1.dcm"]
    assert len(found("xnat://BONES/XNAT_S00001/XNAT_E00002/2")) == 1, (
        "an unusable scan that is named is taken"
    )
    assert len(found("xnat://BONES/XNAT_S00001/XNAT_E00001/1/DICOM")) == 2
    (stored,) = find_objects(ONE)
    assert stored.labels == (("patient", "Jane_Roe"),)
    single = find_object(ONE)
    assert single is not None
    assert (single.size, single.stamp) == (stored.size, stored.stamp)
    assert read_url(ONE, Limits()) == FILES[0]
    assert find_object("xnat://BONES/XNAT_S00001/XNAT_E00001/1/DICOM/none.dcm") is None


def test_sessions_that_are_shared_without_their_subject(xnat: SmallXnat) -> None:
    session = Session("Ann_MR1", {"1": Scan({"DICOM": {"1.dcm": FILES[5]}})})
    xnat.shared = {
        "XNAT_S00007": Subject("Ann_Poe", {"XNAT_E00007": session}),
        "XNAT_S00008": Subject("", {"XNAT_E00008": session}),
        "XNAT_S00002": Subject("label elsewhere", {"XNAT_E00010": session}),
    }
    files = {stored.url: stored.labels for stored in find_objects("xnat://BONES")}
    shared = "xnat://BONES/XNAT_S00007/XNAT_E00007/1/DICOM/1.dcm"
    assert files[shared] == (("patient", "Ann_Poe"),)
    assert files["xnat://BONES/XNAT_S00008/XNAT_E00008/1/DICOM/1.dcm"] == (("patient", "XNAT_S00008"),)
    assert files["xnat://BONES/XNAT_S00002/XNAT_E00010/1/DICOM/1.dcm"] == (("patient", "John_Doe"),)
    assert len(files) == 5 + 3
    assert [stored.url for stored in find_objects("xnat://BONES/XNAT_S00007/XNAT_E00007")] == [shared]
    assert read_url(shared, Limits()) == FILES[5]
    xnat.shared = {"": Subject("", {"XNAT_E00009": session})}
    with pytest.raises(ObjectStoreFailed, match="without their subject_ID"):
        list(find_objects("xnat://BONES"))


def test_one_session_that_is_logged_out(xnat: SmallXnat) -> None:
    list(find_objects("xnat://BONES"))
    assert [header[:5] for header in xnat.sent if header] == ["Basic"], "the password is sent once"
    assert len(xnat.open_sessions) == 1
    forget_session()
    assert not xnat.open_sessions
    assert xnat.asked[-1] == ("DELETE", "/data/JSESSION")


def test_a_session_that_ends_is_begun_again(xnat: SmallXnat) -> None:
    xnat.lasts = 3
    assert len(list(find_objects("xnat://BONES"))) == 5
    assert [method for method, path in xnat.asked if path == "/data/JSESSION"] == ["POST"] * 3


def test_an_alias_token(xnat: SmallXnat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(xnat_session.USER, ALIAS)
    monkeypatch.setenv(xnat_session.PASSWORD, SECRET)
    assert read_url(ONE, Limits()) == FILES[0]


def test_faults_that_pass(xnat: SmallXnat) -> None:
    xnat.faults = [503, 500]
    assert len(list(find_objects("xnat://BONES"))) == 5
    xnat.faults = [502]
    assert read_url(ONE, Limits()) == FILES[0]


def test_faults_that_stay(xnat: SmallXnat, tmp_path: Path) -> None:
    xnat.faults = [503] * 4
    with pytest.raises(StoreSilent, match="does not answer as it should: it answered 503"):
        list(find_objects("xnat://BONES"))
    _, errors = call("index", "xnat://NONE", "--collection", tmp_path / "none", code=2)
    assert "has no project NONE, or this user may not read it" in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "none").exists()
    with pytest.raises(ObjectStoreFailed, match="not the label"):
        list(find_objects("xnat://BONES/Jane_Roe"))
    with pytest.raises(NotFound):
        list(find_objects("xnat://BONES/XNAT_S00001/XNAT_E00001/99"))
    with pytest.raises(ObjectStoreFailed, match="is gone"):
        read_url("xnat://BONES/XNAT_S00001/XNAT_E00001/1/DICOM/../../1.dcm", Limits())
    xnat.totals = 1000
    with pytest.raises(ObjectStoreFailed, match="lists only 2 of 1000"):
        list(find_objects("xnat://BONES"))


def test_wrong_credentials(xnat: SmallXnat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(xnat_session.PASSWORD, "hunter2")
    printed, errors = call("index", "xnat://BONES", "--collection", tmp_path / "none", code=2)
    assert "refuses the credentials in the environment" in errors
    assert len(errors.splitlines()) == 1
    assert "hunter2" not in printed + errors
    assert [path for _, path in xnat.asked] == ["/data/JSESSION"], "a wrong password is not tried again"
    forget_session()
    monkeypatch.delenv(xnat_session.USER)
    with pytest.raises(ObjectStoreFailed, match="wants credentials"):
        list(find_objects("xnat://BONES"))


def test_wrong_servers(xnat: SmallXnat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_XNAT_URL", "http://127.0.0.1:1")
    with pytest.raises(StoreSilent, match="refused or cut"):
        list(find_objects("xnat://BONES"))
    object_store._file_system_of.cache_clear()
    monkeypatch.delenv("CBIR_XNAT_URL")
    with pytest.raises(InvalidInput, match="set xnat_url"):
        list(find_objects("xnat://BONES"))
    with pytest.raises(InvalidInput, match="not from the address"):
        object_store.check_object_url("xnat://reader:password@host/BONES")


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (200, {"Content-Type": "text/html"}, "is not an XNAT server: a listing came as text/html"),
        (302, {"Location": "http://elsewhere.example/"}, "redirects elsewhere, which is not followed"),
        (418, {}, "answered 418: is it the address of an XNAT server"),
    ],
)
def test_other_servers(
    xnat: SmallXnat, monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str], reason: str
) -> None:
    import httpx

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            status if request.method == "GET" else 200, headers=headers, stream=httpx.ByteStream(b"<html>")
        )

    session = object_store._file_system("xnat://").session
    session._client = httpx.Client(transport=httpx.MockTransport(answer))
    with pytest.raises(ObjectStoreFailed, match=reason) as caught:
        list(find_objects("xnat://BONES"))
    assert "elsewhere.example" not in str(caught.value)


def test_large_answers(xnat: SmallXnat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xnat_session, "LISTING_BYTES", 200)
    with pytest.raises(ObjectStoreFailed, match="sends more than 200 bytes"):
        list(find_objects("xnat://BONES"))


@pytest.mark.parametrize("packed", [b"[]", bytes(10**7)], ids=["small", "bomb"])
def test_compressed_answers_are_not_expanded(xnat: SmallXnat, packed: bytes) -> None:
    import httpx

    sent = gzip.compress(packed)
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["Accept-Encoding"])
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(sent))

    session = object_store._file_system("xnat://").session
    session._client = httpx.Client(transport=httpx.MockTransport(answer), headers=session._client.headers)
    assert session.read("/data/any", len(sent)) == sent
    with pytest.raises(ObjectStoreFailed, match="is not an XNAT server"):
        list(find_objects("xnat://BONES"))
    assert set(asked) == {"identity"}


@pytest.mark.parametrize("logged_in", [False, True])
def test_credentials_stay_with_the_server(xnat: SmallXnat, logged_in: bool) -> None:
    if logged_in:
        list(find_objects("xnat://BONES"))
    other = SmallXnat({})
    with serving_xnat(other) as xnat.moved_to:
        with pytest.raises(ObjectStoreFailed, match="redirects elsewhere"):
            list(find_objects("xnat://BONES"))
        assert not other.asked


def test_what_goes_while_it_is_listed_is_refused_by_name(xnat: SmallXnat) -> None:
    files = object_store._file_system("xnat://").find("xnat://BONES")
    next(files)
    del xnat.subjects["XNAT_S00002"]
    (refused,) = (file for file in files if file.refused)
    assert refused.url == "xnat://BONES/XNAT_S00002/XNAT_E00003"
    assert "does not find what it lists: it was deleted meanwhile" in refused.refused


def test_passwords_are_not_sent_in_the_clear(xnat: SmallXnat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_XNAT_URL", "http://xnat.example.org")
    with pytest.raises(InvalidInput, match="must begin with https://") as caught:
        list(find_objects("xnat://BONES"))
    assert PASSWORD not in str(caught.value)
    monkeypatch.delenv(xnat_session.USER)
    assert object_store._file_system("xnat://").session.url == "http://xnat.example.org"


def test_xnatpy_reads_the_same(xnat: SmallXnat) -> None:
    """An independent client takes the test's server for an XNAT."""
    xnatpy = pytest.importorskip("xnat", reason="xnatpy is not installed: pip install xnat")
    url = f"http://127.0.0.1:{xnat.server_address[1]}"
    with xnatpy.connect(url, user=USER, password=PASSWORD, no_parse_model=True) as client:
        path = "/data/experiments/XNAT_E00001/scans/1/resources/DICOM/files"
        rows = client.get_json(path)["ResultSet"]["Result"]
        assert [row["Name"] for row in rows] == ["1.dcm", "a b#ü"]
        assert client.get(f"{path}/1.dcm").content == FILES[0]
    assert not xnat.open_sessions
