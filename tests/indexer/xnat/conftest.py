"""A small XNAT server with a project of two subjects."""

from collections.abc import Iterator

import pytest

from cbir.ingest import object_store, xnat_session
from tests.indexer.receiving import file_of, slices
from tests.indexer.xnat.small_xnat import PASSWORD, USER, Scan, Session, SmallXnat, Subject, serving_xnat

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
