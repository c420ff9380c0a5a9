"""DICOM Structured Report of search results: Enhanced SR with TID 1500, Measurement Report (PS3.16).

Each hit is a measurement group (TID 1501): its image, its rank, and its score, inferred from the query's image.
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
DEVICE = generate_uid(entropy_srcs=["cbir", cbir.__version__])  # equal in all reports of this version
SERIES_NUMBER = 99
UTF_8 = "ISO_IR 192"  # PS3.3, C.12.1.1.2
# attributes copied from the query's header, empty where absent (type 2)
COPIED = (
    "PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID", "StudyDate",
    "StudyTime", "ReferringPhysicianName",
)  # fmt: skip


@dataclass(frozen=True)
class ReportedHit:
    """A hit and the SOP Class UID of its instance."""

    hit: Hit
    sop_class: str


def build_structured_report(
    query: Dataset, frame: int | None, hits: Sequence[ReportedHit], rerank: RerankFacts
) -> bytes:
    """Build the DICOM file of a report in the study of the query.

    Parameters
    ----------
    query : Dataset
        Header with UIDs of study, series, instance and SOP class; patient and study are copied from it.
    frame : int, optional
        Number of the query's frame, from 1.
    hits : sequence of ReportedHit
        At least one hit; all must have a DICOM reference.
    rerank : RerankFacts
        Re-ranking method and parameters.
    """
    evidence = [_copy_header(query), *(_reference(hit) for hit in hits)]
    device = sr.DeviceObserverIdentifyingAttributes(
        uid=DEVICE, name="cbir", model_name="cbir", serial_number=cbir.__version__
    )
    content = sr.MeasurementReport(
        observation_context=sr.ObservationContext(
            observer_device_context=sr.ObserverContext(codes.DCM.Device, device)
        ),
        procedure_reported=codes.SCT.ImagingProcedure,
        imaging_measurements=[
            _measurements(query, frame, rank, hit, rerank) for rank, hit in enumerate(hits, 1)
        ],
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


def _measurements(
    query: Dataset, frame: int | None, rank: int, reported: ReportedHit, rerank: RerankFacts
) -> sr.MeasurementsAndQualitativeEvaluations:
    reference = reported.hit.dicom
    assert reference is not None, "hits need a DICOM reference"
    query_image = sr.SourceImageForMeasurement(query.SOPClassUID, query.SOPInstanceUID, _frames(frame))
    parameters = [f"{name}={value}" for name, value in rerank.parameters.items()]
    algorithm = sr.AlgorithmIdentification(rerank.method, cbir.__version__, parameters or None)
    return sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(highdicom.UID(), f"Similar image {rank}"),
        algorithm_id=algorithm,
        measurements=[
            sr.Measurement(RANK, rank, codes.UCUM.NoUnits),
            sr.Measurement(
                SCORE, float(f"{reported.hit.score:.9g}"), codes.UCUM.NoUnits, referenced_images=[query_image]
            ),
        ],
        source_images=[
            sr.SourceImageForMeasurementGroup(
                reported.sop_class, reference.instance, _frames(reference.frame)
            )
        ],
    )


def _frames(frame: int | None) -> list[int] | None:
    return None if frame is None else [frame]


def _copy_header(query: Dataset) -> Dataset:
    """Copy the attributes that a report shares with the query."""
    header = Dataset()
    for keyword in ("SOPClassUID", "SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID"):
        setattr(header, keyword, query[keyword].value)
    header.SpecificCharacterSet = UTF_8  # JSON is UTF-8, even if the metadata name another set
    for keyword in COPIED:
        value = query.get(keyword) or ""
        setattr(header, keyword, str(value) if isinstance(value, PersonName) else value)
    return header


def _reference(reported: ReportedHit) -> Dataset:
    reference = reported.hit.dicom
    assert reference is not None, "hits need a DICOM reference"
    instance = Dataset()
    instance.SOPClassUID, instance.SOPInstanceUID = reported.sop_class, reference.instance
    instance.StudyInstanceUID, instance.SeriesInstanceUID = reference.study, reference.series
    return instance
