"""DICOM JSON (PS3.18, annex F) of search results, with the attributes that QIDO-RS returns at each level."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydicom.datadict import tag_for_keyword

from cbir.search import example_values as example
from cbir.search.dicom_levels import ImageGroup, Level, group_key
from cbir.store import Record
from cbir.store.external_links import resource_url
from cbir.store.records.dicom_instances import StudyCounts
from cbir.system.addresses import is_uid
from service.http.problems import Malformed

CREATOR = "CBIR SIMILARITY"  # of the private block (0077,xx10); PS3.5, 7.8.1
CODE = re.compile(r"[A-Z0-9 _]{1,16}")  # VR CS
MAX_FIELDS = 100
ALL = "all"


@dataclass(frozen=True)
class QidoMatch:
    """A group of hits, and the facts that its data set reports.

    rank: from 1. archive: public address of the archive, None without one. thumbnail: address on the service.
    """

    rank: int
    group: ImageGroup
    level: Level
    record: Record
    counts: StudyCounts
    archive: str | None
    thumbnail: str

    def uids(self) -> tuple[str, ...]:
        """Return the UIDs of the group, from the study down to its level."""
        return group_key(self.group.best, self.level)


class QidoAttribute(NamedTuple):
    """DICOM attribute of a data set. by_default: returned without includefield. value: None or empty if unknown;
    by default for attributes that the archive has and the collection does not store."""

    level: Level
    tag: str
    vr: str
    value: Callable[[QidoMatch], Any] = lambda _: None
    by_default: bool = True
    optional: bool = False  # else it is returned without a value


def _label(name: str) -> Callable[[QidoMatch], Any]:
    def value(match: QidoMatch) -> Any:
        code = match.record.labels.get(name, "")
        return code if CODE.fullmatch(code) else None  # users may set labels to any text

    return value


def _burned_in(match: QidoMatch) -> str | None:
    return "YES" if match.record.burned_in else None  # a header without the attribute does not mean NO


ATTRIBUTES = (
    # PS3.18, table 10.6.3-3; dates too, since the collection has at most shifted dates
    QidoAttribute(Level.study, "00080020", "DA"),
    QidoAttribute(Level.study, "00080030", "TM"),
    QidoAttribute(Level.study, "00080050", "SH"),
    QidoAttribute(Level.study, "00080061", "CS", lambda match: list(filter(CODE.fullmatch, match.counts.modalities))),
    QidoAttribute(Level.study, "00080090", "PN"),
    QidoAttribute(Level.study, "00100010", "PN"),
    QidoAttribute(Level.study, "00100020", "LO"),
    QidoAttribute(Level.study, "00100030", "DA"),
    QidoAttribute(Level.study, "00100040", "CS"),
    QidoAttribute(Level.study, "0020000D", "UI", lambda match: match.record.study),
    QidoAttribute(Level.study, "00200010", "SH"),
    QidoAttribute(Level.study, "00201206", "IS", lambda match: match.counts.series),
    QidoAttribute(Level.study, "00201208", "IS", lambda match: match.counts.study_instances),
    # table 10.6.3-4
    QidoAttribute(Level.series, "00080060", "CS", _label("modality")),
    QidoAttribute(Level.series, "0020000E", "UI", lambda match: match.record.series),
    QidoAttribute(Level.series, "00200011", "IS"),
    QidoAttribute(Level.series, "00201209", "IS", lambda match: match.counts.series_instances),
    QidoAttribute(Level.series, "00180015", "CS", _label("body_part"), by_default=False),
    QidoAttribute(Level.series, "00200060", "CS", _label("laterality"), by_default=False),
    # table 10.6.3-5
    QidoAttribute(Level.instance, "00080016", "UI", lambda match: match.record.sop_class),
    QidoAttribute(Level.instance, "00080018", "UI", lambda match: match.record.instance),
    QidoAttribute(Level.instance, "00200013", "IS"),
    QidoAttribute(Level.instance, "00280010", "US", lambda match: match.record.height),
    QidoAttribute(Level.instance, "00280011", "US", lambda match: match.record.width),
    QidoAttribute(Level.instance, "00185101", "CS", _label("view_position"), by_default=False),
    QidoAttribute(Level.instance, "00280004", "CS", _label("photometric"), by_default=False),
    QidoAttribute(Level.instance, "00280301", "CS", _burned_in, by_default=False),
)  # fmt: skip


def _matches(match: QidoMatch) -> list[dict[str, Any]]:
    return [
        _private_item(
            ("00771011", "UI", pair.query.instance),
            ("00771012", "UL", pair.query.frame),
            ("00771013", "UI", pair.image.instance),
            ("00771014", "UL", pair.image.frame),
            ("00771015", "FD", pair.similarity),
        )
        for pair in match.group.matches
    ]


def _private_item(*elements: tuple[str, str, Any]) -> dict[str, Any]:
    """Return an item of a private sequence, with its own private creator (PS3.5, 7.8.1) and without empty values."""
    item = {tag: {"vr": vr, "Value": [value]} for tag, vr, value in elements if value not in (None, "")}
    return {"00770010": {"vr": "LO", "Value": [CREATOR]}, **item}


# Returned at every level; explained in docs/orthanc.md.
PRIVATE_ATTRIBUTES = (
    QidoAttribute(Level.study, "00771001", "FD", lambda match: match.group.score),
    QidoAttribute(Level.study, "00771002", "UL", lambda match: match.rank),
    QidoAttribute(Level.study, "00771003", "UL", lambda match: match.group.count),
    QidoAttribute(Level.study, "00771004", "FD", lambda match: match.group.best.distance),
    QidoAttribute(Level.study, "00771005", "UI", lambda match: match.record.instance),
    QidoAttribute(Level.study, "00771006", "UL", lambda match: match.record.frame, optional=True),
    QidoAttribute(Level.study, "00771007", "UR", lambda match: match.thumbnail),
    QidoAttribute(
        Level.study, "00771008", "UR", lambda match: match.group.best.links.rendered, optional=True
    ),
    QidoAttribute(Level.study, "00771009", "UR", lambda match: match.group.best.links.viewer, optional=True),
    QidoAttribute(Level.study, "00771010", "SQ", _matches, optional=True),
)

EXAMPLE = {  # a data set of a response at level study, without the empty attributes
    "00080061": {"vr": "CS", "Value": ["CT"]},
    "0020000D": {"vr": "UI", "Value": [example.STUDY_UID]},
    "00201206": {"vr": "IS", "Value": [2]},
    "00201208": {"vr": "IS", "Value": [180]},
    "00770010": {"vr": "LO", "Value": [CREATOR]},
    "00771001": {"vr": "FD", "Value": [0.93]},
    "00771002": {"vr": "UL", "Value": [1]},
    "00771003": {"vr": "UL", "Value": [12]},
    "00771004": {"vr": "FD", "Value": [0.51]},
    "00771005": {"vr": "UI", "Value": [example.INSTANCE_UID]},
    "00771007": {"vr": "UR", "Value": [f"/v1/images/{example.IMAGE_ID}/thumbnail"]},
}


def included_tags(values: Iterable[str]) -> set[str]:
    """Return the tags of the `values` of `includefield` (PS3.18, 8.3.4.3): comma-separated keywords, tags or "all".

    Raises Malformed for anything else.
    """
    tags = set()
    for word in (word.strip() for text in values for word in text.split(",")):
        if word == ALL:
            tags.add(ALL)
        elif re.fullmatch(r"[0-9A-Fa-f]{8}(\.[0-9A-Fa-f]{8})*", word):
            tags.add(word[:8].upper())
        elif all(tag_for_keyword(part) is not None for part in word.split(".")):
            tags.add(f"{tag_for_keyword(word.partition('.')[0]):08X}")
        else:
            raise Malformed(f"includefield: {word[:64]!r} is not an attribute; use a keyword, a tag, or all")
        if len(tags) > MAX_FIELDS:
            raise Malformed(f"includefield: at most {MAX_FIELDS} attributes")
    return tags


def qido_dataset(match: QidoMatch, tags: set[str]) -> dict[str, Any]:
    """Return the data set of `match`, with the additional `tags`; attributes below its level are never returned."""
    order = list(Level)
    at_level = [item for item in ATTRIBUTES if order.index(item.level) >= order.index(match.level)]
    included = [item for item in at_level if item.by_default or item.tag in tags or ALL in tags]
    elements = {item.tag: _element(item, match) for item in (*included, *PRIVATE_ATTRIBUTES)}
    elements["00770010"] = {"vr": "LO", "Value": [CREATOR]}
    if match.archive and all(map(is_uid, match.uids())):
        elements["00081190"] = {"vr": "UR", "Value": [resource_url(match.archive, *match.uids())]}
    return {tag: element for tag, element in sorted(elements.items()) if element is not None}


def _element(attribute: QidoAttribute, match: QidoMatch) -> Mapping[str, Any] | None:
    value = attribute.value(match)
    values = value if isinstance(value, list) else [] if value in (None, "") else [value]
    if not values:
        return None if attribute.optional else {"vr": attribute.vr}
    return {"vr": attribute.vr, "Value": values}
