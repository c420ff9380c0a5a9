"""Privacy check of a collection: what may identify a person in tags, labels, paths and pixels."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from pydantic import BaseModel, Field
from pydicom.dataset import Dataset

from cbir.errors import UnreadableImage
from cbir.images import Limits, decode
from cbir.images.dicom_dataset import read_header
from cbir.images.image import Image
from cbir.images.reading import read_file, suppress_decoder_logs
from cbir.ingest.burned_in_text import find_burned_in_text, reader_path
from cbir.ingest.object_store import is_object_url, read_url
from cbir.store import Collection, Record
from cbir.store.records import originals
from cbir.system.threads import checkpoint, cores
from service.features.audit.messages import Audit
from service.features.audit.privacy_tags import check_tags, is_declared, profile_tags, read_identity
from service.features.audit.privacy_texts import (
    WHYS,
    Identity,
    Sign,
    common_folders,
    label_signs,
    path_signs,
)

AT_ONCE = 500  # files
MADE_ANEW = "2.25."  # root of UIDs made from a random number
RANK = {why: rank for rank, why in enumerate(WHYS)}
LISTED = 1000  # findings; privacy.csv has all
COLUMNS = ("image_id", "where", "part", "why", "form")
FILE_COLUMNS = ("image_id", "source")


@dataclass(frozen=True)
class PrivacyFinding:
    """A sign of a person in an image. source: its path, which may name them; where: tags, labels, path or pixels."""

    image_id: str
    source: str
    where: str
    sign: Sign


@dataclass(frozen=True, eq=False)
class PrivacyCheck:
    """Findings, the strongest first, with counts of images and of DICOM files.

    unread: images whose file was not found, so that only labels and path were looked at. undeclared: files that do
    not say that their patient's identity was removed. own_uids: files whose UIDs were not made from a random number.
    """

    findings: list[PrivacyFinding]
    images: int
    unread: int
    files: int
    undeclared: int
    own_uids: int


@dataclass
class _FileFindings:
    """Findings in one file, and what is counted of it. unread: number of its images, if it cannot be read."""

    findings: list[PrivacyFinding] = field(default_factory=list)
    unread: int = 0
    is_dicom: bool = False
    is_undeclared: bool = False
    has_own_uid: bool = False


def require_privacy_packages() -> None:
    """Raise InvalidInput with the remedy if a package that the check needs is missing."""
    profile_tags()
    reader_path()


def find_privacy(
    collection: Collection,
    limits: Limits,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PrivacyCheck:
    """Look for what may identify a person in the images of a collection.

    Tags and path of a file with several frames are reported once, with its first image.

    Parameters
    ----------
    collection : Collection
    limits : Limits
        Largest file that is read.
    progress : callable
        Called with the files done and in all; what it raises ends the check.

    Raises
    ------
    InvalidInput
        If a package is missing.
    """
    require_privacy_packages()
    by_source = dict[str, list[Record]]()
    for _, record in collection.iterate():
        by_source.setdefault(record.source, []).append(record)
    common = common_folders([source for source in by_source if not source.startswith(originals.UPLOAD)])
    check = partial(_check_file, collection.folder, collection.secret, limits, common)
    files, checked = list(by_source.values()), list[_FileFindings]()
    with ThreadPoolExecutor(cores()) as executor:
        for start in range(0, len(files), AT_ONCE):
            for each in executor.map(check, files[start : start + AT_ONCE]):
                checkpoint()
                checked.append(each)
                progress(len(checked), len(files))
    findings = list(chain.from_iterable(each.findings for each in checked))
    return PrivacyCheck(
        sorted(findings, key=lambda finding: RANK[finding.sign.why]),
        sum(map(len, files)),
        sum(each.unread for each in checked),
        sum(each.is_dicom for each in checked),
        sum(each.is_undeclared for each in checked),
        sum(each.has_own_uid for each in checked),
    )


def _check_file(
    folder: Path, secret: bytes, limits: Limits, common: int, records: Sequence[Record]
) -> _FileFindings:
    """Check the images of one file of the collection `folder`; `secret`: its key; `common`: see `path_signs`."""
    first, result = records[0], _FileFindings()
    identity = Identity(key=first.patient_key, secret=secret)
    tags, pixels = list[Sign](), list[tuple[Record, Sign]]()
    try:
        data = _read(str(originals.original_path(folder, first.source) or first.source), limits)
        if first.format == "dicom":
            with suppress_decoder_logs():
                dataset = _header(data, limits)
                identity = read_identity(dataset, first.patient_key, secret)
                tags = check_tags(dataset, identity)
            _note_file(result, dataset)
        pixels = list(_check_pixels(data, Path(first.source).name, limits, records))
    except UnreadableImage:
        result.unread = len(records)
    placed_signs = [(first, "tags", sign) for sign in tags]
    placed_signs += [
        (record, "labels", sign) for record in records for sign in label_signs(record.labels, identity)
    ]
    placed_signs += [(first, "path", sign) for sign in path_signs(first.source, common, identity)]
    placed_signs += [(record, "pixels", sign) for record, sign in pixels]
    result.findings = [
        PrivacyFinding(record.image_id, record.source, where, sign) for record, where, sign in placed_signs
    ]
    return result


def _note_file(result: _FileFindings, dataset: Dataset) -> None:
    result.is_dicom, result.is_undeclared = True, not is_declared(dataset)
    result.has_own_uid = not str(dataset.get("SOPInstanceUID", MADE_ANEW)).startswith(MADE_ANEW)


def _header(data: bytes, limits: Limits) -> Dataset:
    try:
        return read_header(data, limits, None)
    except UnreadableImage:
        raise
    except Exception:  # pydicom raises many kinds for damaged headers
        raise UnreadableImage("is not a DICOM file") from None


def _read(source: str, limits: Limits) -> bytes:
    return read_url(source, limits) if is_object_url(source) else read_file(Path(source), limits)


def _check_pixels(
    data: bytes, name: str, limits: Limits, records: Sequence[Record]
) -> Iterator[tuple[Record, Sign]]:
    """Yield the images of a file with text in their pixels; a file whose content has changed is unreadable."""
    by_hash = dict[str, list[Record]]()
    for record in records:
        by_hash.setdefault(record.content_hash, []).append(record)
    for image in decode(data, name, limits=limits):
        matching = by_hash.pop(image.content_hash, [])
        sign = _text_sign(image) if matching else None
        if sign is not None:
            yield from ((record, sign) for record in matching)
        if not by_hash:
            return
    raise UnreadableImage("has another content than the image of the collection")


def _text_sign(image: Image) -> Sign | None:
    text = find_burned_in_text(image.grey)
    if text is None:
        return None
    line = text.line
    box = f"x {line.left:.0f} to {line.right:.0f}, y {line.top:.0f} to {line.bottom:.0f}"
    return Sign(box, "personal-text" if text.looks_personal else "text")


class PrivacyItem(BaseModel):
    """A sign of a person in an image."""

    image_id: str = Field(description="Id of the image; of a file with several frames, the first.")
    where: str = Field(description="tags, labels, path or pixels")
    part: str = Field(description="Attribute, key of the label, folder, or place in the picture.")
    why: str = Field(description="Why it may identify a person.")
    form: str = Field(description="The value with `a` for each word and `9` for each digit.")


class PrivacyGroup(BaseModel):
    """Number of images with the same reason in the same part."""

    where: str = Field(description="tags, labels, path or pixels")
    part: str = Field(description="As of an item; empty for places in pictures.")
    why: str = Field(description="Why it may identify a person.")
    images: int = Field(description="Number of images, or files of several frames.")


class PrivacyFindings(BaseModel):
    """Findings of the privacy check."""

    checked: int = Field(description="Number of images that were looked at.")
    unread: int = Field(description="Images whose file was not found: only labels and path were looked at.")
    images: int = Field(description="Images with a finding.")
    dicom_files: int = Field(description="DICOM files whose tags were read.")
    undeclared: int = Field(
        description="DICOM files that do not say that their patient's identity was removed."
    )
    own_uids: int = Field(
        description="DICOM files whose UIDs were not made from a random number: noted, no finding."
    )
    groups: list[PrivacyGroup] = Field(description="Findings by part and reason, the strongest first.")
    items: list[PrivacyItem] = Field(description="The first 1000 findings, the strongest first.")


class ReportedAudit(Audit):
    """Findings of an audit, in its folder; null for what was not looked at."""

    privacy: PrivacyFindings | None = Field(
        default=None, description="What may identify a person; null without --privacy."
    )


def summarise_privacy(check: PrivacyCheck) -> PrivacyFindings:
    """Return the message of a privacy check."""
    images = Counter(
        (finding.where, part, finding.sign.why) for finding in check.findings for part in _parts(finding)
    )
    groups = [
        PrivacyGroup(where=where, part=part, why=why, images=count)
        for (where, part, why), count in sorted(images.items(), key=lambda item: (RANK[item[0][2]], -item[1]))
    ]
    items = [
        PrivacyItem(image_id=finding.image_id, where=finding.where, **vars(finding.sign))
        for finding in check.findings[:LISTED]
    ]
    return PrivacyFindings(
        checked=check.images,
        unread=check.unread,
        images=len({finding.image_id for finding in check.findings}),
        dicom_files=check.files,
        undeclared=check.undeclared,
        own_uids=check.own_uids,
        groups=groups,
        items=items,
    )


def _parts(finding: PrivacyFinding) -> list[str]:
    """Return what a finding is counted by: each attribute that it names, and no places in pictures."""
    if finding.where == "pixels":
        return [""]
    return finding.sign.part.split() if finding.where == "tags" else [finding.sign.part]


def privacy_rows(check: PrivacyCheck) -> list[tuple[str, ...]]:
    """Return the rows of privacy.csv, with `COLUMNS`."""
    return [(finding.image_id, finding.where, *vars(finding.sign).values()) for finding in check.findings]


def privacy_files(check: PrivacyCheck) -> list[tuple[str, str]]:
    """Return the rows of privacy_files.csv, with `FILE_COLUMNS`: each image with a finding, and its path as it is."""
    return list(dict.fromkeys((finding.image_id, finding.source) for finding in check.findings))
