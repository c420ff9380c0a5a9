"""Whether a Structured Report is valid DICOM."""

import shutil
import subprocess
from pathlib import Path

from pydicom import Dataset, dcmread
from pydicom.config import RAISE
from pydicom.dataelem import DataElement

EXPECTED = (
    "Warning - Unrecognized defined term <99CBIR>",  # codes of our own
    "Warning - Missing attribute or value that would be needed to build DICOMDIR",  # nor does the query have it
)


def check(path: Path) -> None:
    """By dciodvfy, which knows the IOD; without it at least by pydicom, which knows the VRs."""
    if shutil.which("dciodvfy"):
        told = subprocess.run(["dciodvfy", path], capture_output=True, text=True, check=False)
        lines = (told.stdout + told.stderr).splitlines()
        assert [line for line in lines if not line.startswith(EXPECTED)] == ["EnhancedSR"]

    def checked(dataset: Dataset, element: DataElement) -> None:
        if element.VR != "SQ":
            DataElement(element.tag, element.VR, element.value, validation_mode=RAISE)

    dcmread(path).walk(checked)
