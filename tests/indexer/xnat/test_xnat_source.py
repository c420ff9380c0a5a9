"""Indexing a project of an XNAT server, with a small server of its REST interface on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cbir.errors import InvalidInput, NotFound
from cbir.images import Limits
from cbir.ingest import object_store, xnat_session
from cbir.ingest.object_store import ObjectStoreFailed, StoreSilent, find_object, find_objects, read_url
from cbir.store import Collection
from cbir.store.records import hash_patient
from tests.indexer.commands import call, index
from tests.indexer.receiving import file_of, slices
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

FILES = [file_of(ds) for number in range(3) for ds in slices(2, 32, f"1.2.3.{number}", number)]
ONE = "xnat://BONES/XNAT_S00001/XNAT_E00001/1/DICOM/1.dcm"


def project() -> dict[str, Subject]:
    """Two subjects with three sessions; beside their DICOM files what XNAT has too, and is no image of them."""
    snapshots = {"SNAPSHOTS": {"1_t.gif": b"GIF89a..."}, "NIFTI": {"image.nii": b"..."}}
    first = Session(
        "Jane_Roe_MR1", {"1": Scan({"DICOM": {"1.dcm": FILES[0], "sub/a b#ü": FILES[1]}} | snapshots)}
    )
    second = Session("Jane_Roe_MR2", {"1": Scan({"DICOM": {"1.dcm": FILES[2]}}), "2": Scan({}, "unusable")})
    second.scans["2"].resources["DICOM"] = {"1.dcm": b"\0" * 128 + b"DICM damaged"}
    third = Session("John_Doe_MR1", {"7": Scan({"secondary": {"1.dcm": FILES[3], "2.dcm": FILES[4]}})})
    form = Session("Jane_Roe_form", xsi_type="fs:fsData")
    return {
        "XNAT_S00001": Subject(
            "Jane_Roe", {"XNAT_E00001": first, "XNAT_E00002": second, "XNAT_E00009": form}
        ),
        "XNAT_S00002": Subject("John_Doe", {"XNAT_E00003": third}),
    }


@pytest.fixture
def xnat(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallXnat]:
    server = SmallXnat(project())
    with serving_xnat(server) as url:
        monkeypatch.setenv("CBIR_XNAT_URL", url)
        monkeypatch.setenv(xnat_session.USER, USER)
        monkeypatch.setenv(xnat_session.PASSWORD, PASSWORD)
        monkeypatch.setattr(xnat_session, "PAUSE_SECONDS", 0.01)
        object_store._file_system_of.cache_clear()
        yield server
        forget_session()


def forget_session() -> None:
    """Log out, and read settings and credentials again."""
    if object_store._file_system_of.cache_info().currsize:
        object_store._file_system("xnat://").session.close()
    object_store._file_system_of.cache_clear()


def test_a_project_is_indexed_once(xnat: SmallXnat, tmp_path: Path) -> None:
    place = tmp_path / "collection"
    summary = index("xnat://BONES", place)
    assert (summary["indexed"], summary["refused"]) == (5, 0)
    with Collection(place) as collection:
        records = [record for _, record in collection.iterate()]
        jane, john = (hash_patient(collection.secret, name) for name in ("Jane_Roe", "John_Doe"))
    assert [record.source for record in records] == [
        ONE,
        "xnat://BONES/XNAT_S00001/XNAT_E00001/1/DICOM/sub/a b#ü",
        "xnat://BONES/XNAT_S00001/XNAT_E00002/1/DICOM/1.dcm",
        "xnat://BONES/XNAT_S00002/XNAT_E00003/7/secondary/1.dcm",
        "xnat://BONES/XNAT_S00002/XNAT_E00003/7/secondary/2.dcm",
    ]
    assert [record.patient_key for record in records] == [jane] * 3 + [john] * 2
    assert "Roe" not in str(records)
    assert [record.labels["modality"] for record in records] == ["CT"] * 5
    check_nothing_is_read_again(xnat, place)
    check_changes(xnat, place)


def check_nothing_is_read_again(xnat: SmallXnat, place: Path) -> None:
    xnat.asked.clear()
    again = index("xnat://BONES", place)
    assert (again["indexed"], again["already"], again["relabelled"]) == (0, 5, 0)
    assert not [path for _, path in xnat.asked if path.endswith(".dcm")]


def check_changes(xnat: SmallXnat, place: Path) -> None:
    """A new file is read, one with other content too; a subject that was renamed is another patient."""
    jane = xnat.subjects["XNAT_S00001"]
    jane.sessions["XNAT_E00001"].scans["1"].resources["DICOM"]["1.dcm"] = FILES[5]
    jane.label = "Janet_Roe"
    changed = index("xnat://BONES", place)
    assert (changed["indexed"], changed["already"], changed["relabelled"]) == (1, 4, 2)
    with Collection(place) as collection:
        keys = {record.patient_key for _, record in collection.iterate() if "S00001" in record.source}
        assert keys == {hash_patient(collection.secret, "Janet_Roe")}


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
        return httpx.Response(status if request.method == "GET" else 200, headers=headers, content=b"<html>")

    session = object_store._file_system("xnat://").session
    session._client = httpx.Client(transport=httpx.MockTransport(answer))
    with pytest.raises(ObjectStoreFailed, match=reason) as caught:
        list(find_objects("xnat://BONES"))
    assert "elsewhere.example" not in str(caught.value)


def test_large_answers(xnat: SmallXnat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xnat_session, "LISTING_BYTES", 200)
    with pytest.raises(ObjectStoreFailed, match="sends more than 200 bytes"):
        list(find_objects("xnat://BONES"))


def test_xnatpy_reads_the_same(xnat: SmallXnat) -> None:
    """An independent client takes the test's server for an XNAT."""
    xnatpy = pytest.importorskip("xnat", reason="xnatpy is not installed: pip install xnat")
    url = f"http://127.0.0.1:{xnat.server_address[1]}"
    with xnatpy.connect(url, user=USER, password=PASSWORD, no_parse_model=True) as client:
        path = (
            "/data/projects/BONES/subjects/XNAT_S00001/experiments/XNAT_E00001/scans/1/resources/DICOM/files"
        )
        rows = client.get_json(path)["ResultSet"]["Result"]
        assert [row["Name"] for row in rows] == ["1.dcm", "a b#ü"]
        assert client.get(f"{path}/1.dcm").content == FILES[0]
    assert not xnat.open_sessions
