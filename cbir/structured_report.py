"""The answers of a search as a DICOM Structured Report: Enhanced SR with TID 1500, Measurement Report (PS3.16).

A measurement group (TID 1501) for each answer: its image, its rank, and its score, inferred from the query's image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import highdicom
from highdicom import sr
from pydicom import Dataset
from pydicom.sr.codedict import codes
from pydicom.uid import generate_uid
from pydicom.valuerep import PersonName

import cbir
from cbir.search import Hit, RerankFacts

SCHEME = "99CBIR"
SCORE = sr.CodedConcept("SCORE", SCHEME, "Similarity score")
RANK = sr.CodedConcept("RANK", SCHEME, "Rank by similarity")
DEVICE = generate_uid(entropy_srcs=["cbir", cbir.__version__])  # the same for every report of this version
SERIES_NUMBER = 99
UTF_8 = "ISO_IR 192"  # PS3.3, C.12.1.1.2
# What is copied of the query's header; what it does not have is left empty (type 2).
COPIED = (
    "PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID", "StudyDate",
    "StudyTime", "ReferringPhysicianName",
)  # fmt: skip


@dataclass(frozen=True)
class ReportedHit:
    """An answer, and the SOP Class UID of its instance."""

    hit: Hit
    sop_class: str


def build_structured_report(
    query: Dataset, frame: int | None, answers: Sequence[ReportedHit], how: RerankFacts
) -> bytes:
    """The DICOM file of a report in the study of the query, of one answer or more.

    query: its header with UIDs of study, series, instance and SOP class; patient and study are copied from it.
    frame: of the query, from 1, where it has several. Answers need their places in DICOM.
    """
    evidence = [_complete(query), *(_reference(answer) for answer in answers)]
    device = sr.DeviceObserverIdentifyingAttributes(
        uid=DEVICE, name="cbir", model_name="cbir", serial_number=cbir.__version__
    )
    content = sr.MeasurementReport(
        observation_context=sr.ObservationContext(
            observer_device_context=sr.ObserverContext(codes.DCM.Device, device)
        ),
        procedure_reported=codes.SCT.ImagingProcedure,
        imaging_measurements=[_group(query, frame, place, one, how) for place, one in enumerate(answers, 1)],
    )
    report = sr.EnhancedSR(
        evidence=evidence,
        content=content[0],
        series_instance_uid=highdicom.UID(),
        series_number=SERIES_NUMBER,
        series_description="Similar images",
        sop_instance_uid=highdicom.UID(),
        instance_number=1,
        manufacturer="cbir",
        manufacturer_model_name="cbir",
        software_versions=cbir.__version__,
        device_serial_number=cbir.__version__,
        is_complete=True,
    )
    scheme = Dataset()
    scheme.CodingSchemeDesignator, scheme.CodingSchemeName = SCHEME, "Codes of cbir"
    report.CodingSchemeIdentificationSequence = [scheme]
    file = BytesIO()
    report.save_as(file)
    return file.getvalue()


def _group(
    query: Dataset, frame: int | None, place: int, answer: ReportedHit, how: RerankFacts
) -> sr.MeasurementsAndQualitativeEvaluations:
    found = answer.hit.dicom
    assert found is not None, "answers need their places in DICOM"
    of_query = sr.SourceImageForMeasurement(query.SOPClassUID, query.SOPInstanceUID, _frames(frame))
    parameters = [f"{name}={value}" for name, value in how.parameters.items()]
    algorithm = sr.AlgorithmIdentification(how.method, cbir.__version__, parameters or None)
    return sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(highdicom.UID(), f"Similar image {place}"),
        algorithm_id=algorithm,
        measurements=[
            sr.Measurement(RANK, place, codes.UCUM.NoUnits),
            sr.Measurement(
                SCORE, float(f"{answer.hit.score:.9g}"), codes.UCUM.NoUnits, referenced_images=[of_query]
            ),
        ],
        source_images=[
            sr.SourceImageForMeasurementGroup(answer.sop_class, found.instance, _frames(found.frame))
        ],
    )


def _frames(frame: int | None) -> list[int] | None:
    return None if frame is None else [frame]


def _complete(query: Dataset) -> Dataset:
    """What a report takes over of the query."""
    kept = Dataset()
    for keyword in ("SOPClassUID", "SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID"):
        setattr(kept, keyword, query[keyword].value)
    kept.SpecificCharacterSet = UTF_8  # whatever it was: an archive's JSON may say another than it is in
    for keyword in COPIED:
        value = query.get(keyword) or ""
        setattr(kept, keyword, str(value) if isinstance(value, PersonName) else value)
    return kept


def _reference(answer: ReportedHit) -> Dataset:
    found = answer.hit.dicom
    assert found is not None, "answers need their places in DICOM"
    other = Dataset()
    other.SOPClassUID, other.SOPInstanceUID = answer.sop_class, found.instance
    other.StudyInstanceUID, other.SeriesInstanceUID = found.study, found.series
    return other
