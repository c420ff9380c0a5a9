"""Phantoms as DICOM objects: CR, digital X-ray, mammography (PS3.3 A.2, A.26, A.27)."""

from datetime import date, timedelta
from io import BytesIO

import numpy as np
from pydicom import Dataset, dcmwrite, uid
from pydicom.dataset import FileMetaDataset

from cbir.evaluation.datasets.phantoms.drawing import PhantomRadiograph

STORAGE = {
    "CR": uid.ComputedRadiographyImageStorage,
    "DX": uid.DigitalXRayImageStorageForPresentation,
    "MG": uid.DigitalMammographyXRayImageStorageForPresentation,
}
# PS3.16 CID 4014: views of the breast, SNOMED CT
BREAST_VIEWS = {"MLO": ("399368009", "medio-lateral oblique"), "CC": ("399162004", "cranio-caudal")}
FIRST_DAY = date(2020, 1, 1)


def encode_dicom(phantom: PhantomRadiograph, index: int, seed: int) -> bytes:
    """Encode a phantom as a DICOM file, the same bytes for the same arguments.

    12 bits stored of 16, so that a stored value divided by 16 is the 8-bit grey value; every fifth image is
    MONOCHROME1 (inverted), every fourth is RLE-compressed, the rest is explicit VR little endian.

    Parameters
    ----------
    phantom : PhantomRadiograph
        Pixels and ground truth.
    index, seed : int
        Those the phantom was drawn with; UIDs and dates depend on them.
    """
    ds = Dataset()
    _patient_and_study(ds, phantom, index, seed)
    _equipment(ds, phantom)
    grey = phantom.pixels.astype(np.uint16)
    stored = grey * 16 + grey // 16
    inverted = index % 5 == 4
    ds.SamplesPerPixel = 1
    ds.PhotometricInterpretation = "MONOCHROME1" if inverted else "MONOCHROME2"
    ds.Rows, ds.Columns = stored.shape
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
    ds.WindowCenter, ds.WindowWidth = "2048", "4096"
    ds.RescaleIntercept, ds.RescaleSlope, ds.RescaleType = "0", "1", "US"
    ds.PresentationLUTShape = "INVERSE" if inverted else "IDENTITY"
    ds.LossyImageCompression = "00"
    ds.BurnedInAnnotation = "YES"
    ds.PixelData = (4095 - stored if inverted else stored).astype("<u2").tobytes()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    if index % 4 == 3:
        ds.compress(uid.RLELossless, encoding_plugin="pydicom", generate_instance_uid=False)
    file = BytesIO()
    dcmwrite(file, ds, enforce_file_format=True)
    return file.getvalue()


def _patient_and_study(ds: Dataset, phantom: PhantomRadiograph, index: int, seed: int) -> None:
    number = int(phantom.patient.rpartition("-")[2])
    day = FIRST_DAY + timedelta(days=number % 1500 + 200 * phantom.visit)
    ds.SOPClassUID = STORAGE[phantom.modality]
    ds.SOPInstanceUID = phantom_uid(seed, phantom.patient, index, phantom.label, *phantom.pixels.shape)
    ds.StudyInstanceUID = phantom_uid(seed, phantom.patient, phantom.visit)
    ds.SeriesInstanceUID = phantom_uid(seed, phantom.patient, phantom.visit, phantom.label)
    ds.PatientName = f"PHANTOM^{phantom.patient}"
    ds.PatientID = phantom.patient
    ds.PatientBirthDate = f"{day.year - phantom.age}0101"
    ds.PatientSex = phantom.sex
    ds.PatientAge = f"{phantom.age:03d}Y"
    ds.StudyDate = ds.SeriesDate = ds.AcquisitionDate = ds.ContentDate = day.strftime("%Y%m%d")
    ds.StudyTime = ds.SeriesTime = ds.AcquisitionTime = ds.ContentTime = "120000"
    ds.StudyID = str(phantom.visit + 1)
    ds.StudyDescription = f"Phantom {phantom.anatomy}"
    ds.SeriesDescription = f"{phantom.anatomy} {phantom.view}".strip()
    ds.SeriesNumber, ds.InstanceNumber = "1", str(index + 1)
    ds.AccessionNumber = ""
    ds.ReferringPhysicianName = ""


def phantom_uid(*parts: object) -> str:
    """Return the UID that belongs to `parts`, always the same."""
    return uid.generate_uid(entropy_srcs=["phantom", *map(str, parts)])


def _equipment(ds: Dataset, phantom: PhantomRadiograph) -> None:
    ds.Modality = phantom.modality
    ds.Manufacturer = "cbir phantoms"
    ds.ImageType = ["DERIVED", "PRIMARY"]
    ds.BodyPartExamined, ds.ViewPosition = phantom.body_part, phantom.view_position
    ds.PatientOrientation = ""
    spacing = f"{phantom.length / max(phantom.pixels.shape):.6g}"
    ds.ImagerPixelSpacing = [spacing, spacing]
    if phantom.modality == "CR":
        ds.Laterality = phantom.laterality
        return
    ds.PresentationIntentType = "FOR PRESENTATION"
    ds.ImageLaterality = phantom.laterality or "U"
    ds.DetectorType = "DIRECT"
    ds.PixelIntensityRelationship, ds.PixelIntensityRelationshipSign = "LOG", 1
    ds.AcquisitionContextSequence = []
    ds.AnatomicRegionSequence = []
    if phantom.modality == "MG":
        ds.PositionerType = "MAMMOGRAPHIC"
        ds.BreastImplantPresent = "NO"
        ds.OrganExposed = "BREAST"
        ds.AnatomicRegionSequence = [_coded("76752008", "Breast")]
        view = _coded(*BREAST_VIEWS[phantom.view_position])
        view.ViewModifierCodeSequence = []
        ds.ViewCodeSequence = [view]


def _coded(value: str, meaning: str) -> Dataset:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, "SCT", meaning
    return item
