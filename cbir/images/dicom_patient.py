"""Read the patient's identifier of a DICOM file, without its pixels."""

from pathlib import Path

import pydicom


def read_patient_id(path: Path) -> str:
    """Return the patient's identifier of a DICOM file; "" without one, or if the file cannot be read."""
    try:
        dataset = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=["PatientID"], force=True)
        return str(dataset.get("PatientID") or "").strip()
    except Exception:  # damaged files raise anything, and messages may quote patient data
        return ""
