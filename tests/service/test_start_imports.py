"""What processes of a service import before they can work, which is most of the time that each takes to start."""

import subprocess
import sys

import pytest

LATER = "matplotlib onnxruntime pandas pydicom pynetdicom ray scipy sklearn torch"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "later"),
    [("service.app", LATER), ("cbir.ingest.decoder_tasks", f"{LATER} faiss flask sqlalchemy")],
)
def test_a_process_starts_without_what_only_some_requests_need(module: str, later: str) -> None:
    program = f"import sys, {module}; print(*sys.modules.keys() & {later.split()})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == []


@pytest.mark.slow
def test_a_decoder_has_what_reads_dicom_before_its_first_image() -> None:
    start = "from cbir.ingest.process_pool import prepare_to_decode; prepare_to_decode()"
    program = f"import sys; {start}; sys.exit('pydicom' not in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
