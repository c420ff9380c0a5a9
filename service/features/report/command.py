"""`cbir search --report`."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from cbir import settings
from cbir.errors import InvalidInput, UnreadableImage
from cbir.search import command_options as options
from cbir.search.dicom_levels import Exclude
from cbir.system.console import echo
from cbir.system.files import open_private
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from pydicom import Dataset

    from cbir.ingest.archive_client import ArchiveClient
    from cbir.search import Answer, Hit, Request, Searcher
    from cbir.store import Collection, Record

UIDS = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID", "SOPClassUID")


def report_hits(
    image: Annotated[
        str, Argument(metavar="IMAGE", help="DICOM file, or id:IMAGE_ID of an image of the collection.")
    ],
    collection: options.Folder,
    k: Annotated[int, Option("-k", help="Number of results.", min=1, max=1000)] = 10,
    out: Annotated[Path | None, Option(help="Write the report to this file.")] = None,
    store: Annotated[bool, Option("--store", help="Store the report in the archive, by STOW-RS.")] = False,
    archive: Annotated[
        str | None,
        Option(help="URL of the archive's DICOMweb service, before /studies. [default: setting archive_url]"),
    ] = None,
    exclude: Annotated[
        Exclude, Option(help="Leave out results of the query's image, series, study or patient.")
    ] = Exclude.study,
    rerank: options.Rerank = None,
    parameter: options.Parameter = None,
    where: options.Where = None,
    frame: options.Frame = None,
) -> None:
    """Report the images similar to one as a DICOM Structured Report in its study.

    The report names the patient, whom the collection does not store: the name comes from the file, or for an image of
    the collection from the archive or the indexed file. Credentials of the archive come from the environment:
    CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, or CBIR_DICOMWEB_TOKEN.
    """
    from cbir.images.reading import suppress_decoder_logs
    from cbir.ingest.archive_client import ArchiveClient
    from cbir.search import Request, Searcher
    from cbir.store import Collection

    if not out and not store:
        raise InvalidInput("name a file with --out, or send the report to the archive with --store")
    if out and out.exists():
        raise InvalidInput(f"--out {out} exists already; name another file")
    loaded = settings.load(archive_url=archive)
    archive_client = ArchiveClient(loaded.archive_url) if loaded.archive_url else None
    if store and not archive_client:
        raise InvalidInput("--store needs an archive: name it with --archive, or in the setting archive_url")
    try:
        from service.features.report.structured_report import ReportedHit, build_structured_report
    except ImportError as error:
        raise InvalidInput(f"reports need highdicom: {install_command('pacs')}") from error
    with Collection(collection) as opened:
        searcher = Searcher(opened, loaded)
        parameters = options.parse_parameters(parameter)
        request = Request(k=k, rerank=rerank, parameters=parameters, where=where or [])
        header, query_frame, answer = _search(searcher, image, frame, request, exclude, archive_client)
        hits = [hit for hit in answer.results if opened.record(hit.image_id).format != "nifti"]
        answers = [ReportedHit(hit, _sop_class(opened, hit, archive_client)) for hit in hits]
    if not answers:
        raise InvalidInput(f"no results for {image}: no DICOM image is left to report")
    try:
        with suppress_decoder_logs():
            data = build_structured_report(header, query_frame, answers, answer.rerank)
    except (ValueError, TypeError) as error:  # the message may quote attributes of the patient
        raise InvalidInput(
            f"the header of {image} cannot be copied into a report: a value does not fit its VR"
        ) from error
    if out:
        with open(out, "wb", opener=open_private) as file:  # it names the patient
            file.write(data)
        echo(f"{out}: {len(answers)} results")
    if store and archive_client:
        archive_client.store(data)
        echo(f"stored in {archive_client.url}: {len(answers)} results")


def _search(
    searcher: "Searcher",
    image: str,
    frame: int | None,
    request: "Request",
    exclude: Exclude,
    archive_client: "ArchiveClient | None",
) -> "tuple[Dataset, int | None, Answer]":
    """Return the query's header, its frame, and the search results."""
    from cbir.images import Limits, read_images
    from cbir.search import Stopwatch, select_frame

    watch = Stopwatch()
    if image.startswith("id:"):
        if frame is not None:
            raise InvalidInput("--frame is for files; every frame of the collection has an id")
        record = searcher.collection.record(image.removeprefix("id:"))
        header = _header_of(searcher.collection, record, archive_client)
        narrowed = _exclude(request, header, exclude, record.patient_key)
        return header, record.frame, searcher.by_id(record.image_id, narrowed, watch)
    header = _read_header(Path(image), image)
    limits = Limits.from_settings(searcher.settings)
    query = select_frame(read_images(Path(image), limits=limits), frame, image)
    narrowed = _exclude(request, header, exclude, str(header.get("PatientID") or "") or None)
    return header, query.frame, searcher.by_image(query, narrowed, watch)


def _exclude(request: "Request", header: "Dataset", exclude: Exclude, patient: str | None) -> "Request":
    from cbir.store.records.filter_conditions import DicomScope

    level = list(Exclude).index(exclude)
    scope = DicomScope(
        header.StudyInstanceUID,
        header.SeriesInstanceUID if level < 2 else "",
        header.SOPInstanceUID if level < 1 else "",
    )
    excluded_patient = patient if exclude is Exclude.patient else None
    return request.model_copy(update={"outside": scope, "exclude_patient": excluded_patient})


def _header_of(
    collection: "Collection", record: "Record", archive_client: "ArchiveClient | None"
) -> "Dataset":
    """Read the header of an image of the collection, which stores none, from the archive or its file."""
    from pydicom import Dataset

    from cbir.images import Limits
    from cbir.images.reading import suppress_decoder_logs
    from cbir.ingest.object_store import is_object_url, read_url
    from cbir.store.records import originals

    name = f"image {record.image_id}"
    if not record.instance or record.format == "nifti":
        raise InvalidInput(f"{name} is no DICOM image, so there is no study that its report belongs to")
    if archive_client:
        attributes = archive_client.metadata(record.study, record.series, record.instance)
        try:
            with suppress_decoder_logs():
                header = Dataset.from_json(attributes)
        except Exception:  # as for a damaged file; the message may quote the patient's data
            raise InvalidInput(f"the metadata of {name} from {archive_client.url} are not DICOM") from None
        if header.get("SOPInstanceUID") != record.instance:
            raise InvalidInput(f"{archive_client.url} returned another instance for {name}")
        return _check_uids(header, name)
    if is_object_url(record.source):
        return _read_header(BytesIO(read_url(record.source, Limits())), name)
    path = originals.original_path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        raise InvalidInput(f"only the archive knows the patient of {name}: name it with --archive")
    return _read_header(path, name)


def _read_header(path: Path | BytesIO, name: str) -> "Dataset":
    from pydicom import dcmread

    from cbir.images.reading import suppress_decoder_logs

    try:
        with suppress_decoder_logs():
            header = dcmread(path, stop_before_pixels=True, force=True)
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}") from None
    except (
        Exception
    ):  # pydicom raises nearly anything for damaged data sets; the message may quote the patient's data
        raise UnreadableImage(f"{name} is a damaged DICOM file; copy or export it again") from None
    return _check_uids(header, name)


def _check_uids(header: "Dataset", name: str) -> "Dataset":
    missing = next((keyword for keyword in UIDS if not header.get(keyword)), None)
    if missing:
        raise InvalidInput(f"{name} is no DICOM image that a report can refer to: it has no {missing}")
    return header


def _sop_class(collection: "Collection", hit: "Hit", archive_client: "ArchiveClient | None") -> str:
    """Return the SOP Class UID of a hit, from its header if an older version indexed it."""
    record = collection.record(hit.image_id)
    return record.sop_class or str(_header_of(collection, record, archive_client).SOPClassUID)
