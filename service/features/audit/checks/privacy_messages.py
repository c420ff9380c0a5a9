"""Findings of the privacy check in `audit.json`, and as a table that may be mailed: no value is in either."""

from collections import Counter

from pydantic import BaseModel, Field

from service.features.audit.checks.audit_messages import Audit
from service.features.audit.checks.privacy import RANK, PrivacyCheck, PrivacyFinding

LISTED = 1000  # findings; privacy.csv has all
COLUMNS = ("image_id", "where", "part", "why", "form")
FILE_COLUMNS = ("image_id", "source")


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
