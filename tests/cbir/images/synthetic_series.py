"""CT series as DICOM slices and as NIfTI, of bodies that are drawn in the patient's coordinates."""

from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray

from tests.cbir.images.synthetic_dicom import dicom_set, written

AXIAL = (1, 0, 0, 0, 1, 0)


def body(x, y, z, seed: int = 1) -> NDArray[np.float64]:
    """Return HU at places in mm (left, posterior, superior) of an ellipsoid with a few organs."""
    random = np.random.default_rng(seed)
    values = np.where((x / 110) ** 2 + (y / 80) ** 2 + (z / 150) ** 2 < 1, 40.0, -1000.0)
    for _ in range(4):
        center, radius = random.uniform(-50, 50, 3), random.uniform(20, 45)
        distance = np.sqrt((x - center[0]) ** 2 + (y - center[1]) ** 2 + (z - center[2]) ** 2)
        share = np.clip((radius - distance) / 8, 0, 1)  # soft edges, so that spacings hardly matter
        values = values * (1 - share) + random.choice([-800, 120, 300, 700]) * share
    return values


def axis(count: int, spacing: float) -> NDArray[np.float64]:
    return (np.arange(count) - (count - 1) / 2) * spacing


def stack(shape=(30, 40, 44), spacing=(6.0, 5.0, 5.0), seed: int = 1) -> NDArray[np.int16]:
    """Return HU (slices, rows, columns) of axial slices around the middle of a body."""
    z, y, x = (axis(*pair) for pair in zip(shape, spacing, strict=True))
    return np.rint(body(x[None, None, :], y[None, :, None], z[:, None, None], seed)).astype(np.int16)


def write_series(
    folder: Path,
    values: NDArray[np.int16],
    spacing=(6.0, 5.0, 5.0),
    uid: str = "1.2.3",
    slope: float = 1,
    intercept: float = -1024,
    order_seed: int = 0,
    orientation=AXIAL,
    **attributes,
) -> list[Path]:
    """Write slices under names in shuffled order; `spacing` of slices, rows and columns. Return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    across, down = np.array(orientation[:3], float), np.array(orientation[3:], float)
    names = np.random.default_rng(order_seed).permutation(len(values))
    paths = []
    for number, (name, plane) in enumerate(zip(names, values, strict=True)):
        stored = np.rint((plane.astype(float) - intercept) / slope).astype(np.int16)
        place = np.cross(across, down) * axis(len(values), spacing[0])[number]
        place -= (
            across * (values.shape[2] - 1) / 2 * spacing[2] + down * (values.shape[1] - 1) / 2 * spacing[1]
        )
        fields = {
            "Modality": "CT", "SeriesInstanceUID": uid, "StudyInstanceUID": f"{uid}.9", "PatientID": f"P{uid}",
            "SOPInstanceUID": f"{uid}.{number + 1}", "RescaleSlope": slope, "RescaleIntercept": intercept,
            "ImageOrientationPatient": list(orientation), "PixelSpacing": [spacing[1], spacing[2]],
            "ImagePositionPatient": [round(float(value), 6) for value in place],
        }  # fmt: skip
        paths.append(folder / f"{name:04d}.dcm")
        paths[-1].write_bytes(written(dicom_set(stored, **(fields | attributes))))
    return paths


def write_nifti(path: Path, values: NDArray[np.int16], spacing=(6.0, 5.0, 5.0)) -> Path:
    """Write the same volume as `write_series` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    affine = np.diag([-spacing[2], -spacing[1], spacing[0], 1.0])
    shape = np.array(values.shape[::-1])
    affine[:3, 3] = -affine[:3, :3] @ ((shape - 1) / 2)
    nibabel.save(nibabel.Nifti1Image(values.transpose(2, 1, 0), affine), path)
    return path
