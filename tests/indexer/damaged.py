"""DICOM files that no good archive sends, and what is to become of each."""

from pydicom import Dataset
from pydicom.uid import BasicTextSRStorage, ExplicitVRBigEndian, ExplicitVRLittleEndian, RLELossless

from indexer.describe_instance import Fate
from tests.indexer.receiving import file_of, phantom, slices, with_meta


def _cut() -> bytes:
    (ds,) = slices(1, 64, "1.2.840.1")
    return file_of(ds)[:-3000]


def _cut_in_the_header() -> bytes:
    data = _cut()
    return data[: data.index(b"SECRET^NAME") + 4]


def _wrong_syntax(said: str) -> bytes:
    """Says that it is of another transfer syntax than it is."""
    (ds,) = slices(1, 64, f"1.2.840.2{said[-1]}")
    return file_of(ds).replace(ExplicitVRLittleEndian.encode(), said.encode(), 1)


def _too_few_pixels() -> bytes:
    (ds,) = slices(1, 64, "1.2.840.3")
    ds.PixelData = ds.PixelData[:1000]
    return file_of(ds)


def _enormous() -> bytes:
    (ds,) = slices(1, 64, "1.2.840.4")
    ds.Rows = ds.Columns = 65535
    return file_of(ds)


def _report() -> bytes:
    ds = Dataset()
    ds.SOPClassUID, ds.SOPInstanceUID = BasicTextSRStorage, "1.2.840.5.1"
    ds.StudyInstanceUID, ds.SeriesInstanceUID, ds.Modality = "1.2.840.5", "1.2.840.5.0", "SR"
    return file_of(with_meta(ds))


def _private() -> bytes:
    """Private elements of no known kind, long, nested and of odd bytes, around a good picture."""
    ds = phantom(3)
    ds.SOPInstanceUID = "1.2.840.6.1"
    block = ds.private_block(0x0009, "NOBODY KNOWS", create=True)
    block.add_new(1, "UN", bytes(range(256)) * 40)
    block.add_new(2, "LO", "x" * 60)
    inner = Dataset()
    inner.add_new(0x00110010, "LO", "NOBODY")
    inner.add_new(0x00111001, "OB", b"\xff\xfe\x0d\xe0" * 8)
    block.add_new(3, "SQ", [inner, inner])
    ds.add_new(0x7FE10010, "OB", b"\0" * 5000)  # after the pixels
    return file_of(with_meta(ds, ds.file_meta.TransferSyntaxUID))


DAMAGED = {
    "cut": (_cut(), Fate.unreadable),
    "cut in the header": (_cut_in_the_header(), Fate.unreadable),
    "not compressed though it says so": (_wrong_syntax(RLELossless), Fate.unreadable),
    "another order of bytes than it says": (_wrong_syntax(ExplicitVRBigEndian), Fate.unreadable),
    "too few pixels": (_too_few_pixels(), Fate.unreadable),
    "65535 rows and columns": (_enormous(), Fate.unreadable),
    "report": (_report(), Fate.no_image),
    "private garbage": (_private(), Fate.stored),
}
