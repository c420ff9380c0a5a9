"""`cbir report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.archive_client import ArchiveClient
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Limits, read_images
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.search import Answer, Hit, Request, Searcher, Stopwatch, query_frame
from cbir.similar import Exclude
from cbir.store import Collection, Record, originals
from cbir.store.instances import DicomScope

if TYPE_CHECKING:
    from pydicom import Dataset

UIDS = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID", "SOPClassUID")


def report(
    image: Annotated[
        str, typer.Argument(metavar="IMAGE", help="DICOM file, or id:IMAGE_ID of the collection's.")
    ],
    collection: Annotated[Path, typer.Option(help="Folder of the collection.")],
    k: Annotated[int, typer.Option("-k", help="Number of answers.", min=1, max=1000)] = 10,
    out: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    store: Annotated[bool, typer.Option("--store", help="Store it in the archive, by STOW-RS.")] = False,
    archive: Annotated[
        str | None, typer.Option(help="Its DICOMweb service, before /studies [setting archive_url].")
    ] = None,
    exclude: Annotated[Exclude, typer.Option(help="What of the query's is left out.")] = Exclude.study,
    rerank: Annotated[str | None, typer.Option(help="auto, none, eprf ...; a wrong name lists all.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only images with this label, e.g. modality=CT.")
    ] = None,
    frame: Annotated[int | None, typer.Option(help="Frame of a multi-frame file, from 1.")] = None,
) -> None:
    """The images most like one, as a DICOM Structured Report in the study of that one.

    The report names the patient, whom the collection does not know: that comes from the file, or for an image of
    the collection from the archive or from its own file. Credentials of the archive come from the environment:
    CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, or CBIR_DICOMWEB_TOKEN.
    """
    if not out and not store:
        raise InvalidInput("name a file with --out, or send the report to the archive with --store")
    if out and out.exists():
        raise InvalidInput(f"--out {out} is there already; name another file")
    in_force = settings.load(archive_url=archive)
    place = ArchiveClient(in_force.archive_url) if in_force.archive_url else None
    if store and not place:
        raise InvalidInput("--store needs an archive: name it with --archive, or in the setting archive_url")
    try:
        from cbir.structured_report import ReportedHit, build_structured_report
    except ImportError as error:
        raise InvalidInput("reports need highdicom: pip install 'cbir[pacs]'") from error
    with Collection(collection) as opened:
        searcher = Searcher(opened, in_force)
        wanted = Request(k=k, rerank=rerank, where=where or [])
        header, of_frame, answer = _asked(searcher, image, frame, wanted, exclude, place)
        answers = [ReportedHit(hit, _sop_class(opened, hit, place)) for hit in answer.results]
    if not answers:
        raise InvalidInput(f"nothing in the collection is like {image}: no DICOM image is left to report")
    try:
        with suppress_decoder_logs():
            data = build_structured_report(header, of_frame, answers, answer.rerank)
    except (ValueError, TypeError) as error:  # its words may quote what the header says of the patient
        raise InvalidInput(
            f"the header of {image} cannot be taken over into a report: a value is not of its VR"
        ) from error
    if out:
        out.write_bytes(data)
        typer.echo(f"{out}: {len(answers)} answers")
    if store and place:
        place.store(data)
        typer.echo(f"stored in {place.url}: {len(answers)} answers")


def _asked(
    searcher: Searcher,
    image: str,
    frame: int | None,
    wanted: Request,
    exclude: Exclude,
    place: ArchiveClient | None,
) -> "tuple[Dataset, int | None, Answer]":
    """The query's header, its frame, and what is like it."""
    watch = Stopwatch()
    if image.startswith("id:"):
        if frame is not None:
            raise InvalidInput("--frame is of a file; every frame of the collection has an id of its own")
        record = searcher.collection.record(image.removeprefix("id:"))
        header = _header_of(searcher.collection, record, place)
        request = _leaving_out(wanted, header, exclude, record.patient_key)
        return header, record.frame, searcher.by_id(record.image_id, request, watch)
    header = _read_header(Path(image), image)
    limits = Limits(pixels=searcher.settings.max_pixels)
    found = query_frame(read_images(Path(image), limits=limits), frame, image)
    request = _leaving_out(wanted, header, exclude, str(header.get("PatientID") or "") or None)
    return header, found.frame, searcher.by_image(found, request, watch)


def _leaving_out(wanted: Request, header: "Dataset", exclude: Exclude, patient: str | None) -> Request:
    level = list(Exclude).index(exclude)
    scope = DicomScope(
        header.StudyInstanceUID,
        header.SeriesInstanceUID if level < 2 else "",
        header.SOPInstanceUID if level < 1 else "",
    )
    whose = patient if exclude is Exclude.patient else None
    return wanted.model_copy(update={"outside": scope, "exclude_patient": whose})


def _header_of(collection: Collection, record: Record, place: ArchiveClient | None) -> "Dataset":
    """The header of an image of the collection, which keeps none: from the archive, or else from its file."""
    from pydicom import Dataset

    name = f"image {record.image_id}"
    if not record.instance:
        raise InvalidInput(f"{name} is no DICOM image, so there is no study that its report belongs to")
    if place:
        told = place.metadata(record.study, record.series, record.instance)
        try:
            with suppress_decoder_logs():
                header = Dataset.from_json(told)
        except Exception:  # as of a damaged file; its words may quote the patient's
            raise InvalidInput(f"what {place.url} says of {name} is no DICOM") from None
        if header.get("SOPInstanceUID") != record.instance:
            raise InvalidInput(f"{place.url} answers for {name} with another instance")
        return _checked(header, name)
    path = originals.path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise InvalidInput(f"whose {name} is, only the archive knows: name it with --archive")
    return _read_header(path, name)


def _read_header(path: Path, name: str) -> "Dataset":
    from pydicom import dcmread

    try:
        with suppress_decoder_logs():
            header = dcmread(path, stop_before_pixels=True, force=True)
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}") from None
    except Exception:  # damaged data sets lead pydicom anywhere; its words may quote the patient's
        raise UnreadableImage(f"{name} is a damaged DICOM file; copy or export it again") from None
    return _checked(header, name)


def _checked(header: "Dataset", name: str) -> "Dataset":
    missing = next((keyword for keyword in UIDS if not header.get(keyword)), None)
    if missing:
        raise InvalidInput(f"{name} is no DICOM image that a report can refer to: it has no {missing}")
    return header


def _sop_class(collection: Collection, hit: Hit, place: ArchiveClient | None) -> str:
    """Of an answer's instance; collections that an older version made do not know it."""
    record = collection.record(hit.image_id)
    return record.sop_class or str(_header_of(collection, record, place).SOPClassUID)
