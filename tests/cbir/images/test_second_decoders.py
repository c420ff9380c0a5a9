"""Files of others, read by decoders of other authors too: no silent difference."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests import benches
from tests.cbir.images.test_corpus import SHIPPED

BENCH = benches.loaded("second_decoders")
DIFFERENT = {  # with the reason
    "rtdose_expb.dcm",  # DCMTK swaps the halves of big-endian words of 32 bits, which are OW
    "rtdose_expb_1frame.dcm",
    "RG3_JPLY",  # of its pixels, 8 are beyond the range after lossy coding; DCMTK wraps them around
}

pytestmark = pytest.mark.filterwarnings("ignore")  # of pydicom: some of the files have faults


def compared(folder):
    """Return how many files were compared, by decoder."""
    counts = Counter()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        comparison = BENCH.compare_file(path)
        if comparison is not None and comparison.difference is not None:
            assert comparison.differs == (path.name in DIFFERENT), f"{path}: {comparison}"
            counts[comparison.other] += 1
    return counts


def test_files_of_pydicom():
    if shutil.which("dcmj2pnm") is None:
        pytest.skip("dcmj2pnm, of Debian's dcmtk, is not installed")
    assert compared(SHIPPED)["DCMTK"] >= 78


def test_real_files():
    folder = Path(os.environ.get("CBIR_DATA", "")) / "dicom"
    if "CBIR_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("CBIR_DATA does not name a folder with a folder dicom")
    if shutil.which("dcmj2pnm") is None:
        pytest.skip("dcmj2pnm, of Debian's dcmtk, is not installed")
    assert sum(compared(folder).values()) >= 30


def test_a_difference_is_seen(tmp_path, monkeypatch):
    path = SHIPPED / "CT_small.dcm"
    monkeypatch.setattr(BENCH, "to_pixels", lambda samples: samples // 2)
    if shutil.which("dcmj2pnm") is None:
        pytest.skip("dcmj2pnm, of Debian's dcmtk, is not installed")
    assert BENCH.compare_file(path).differs
