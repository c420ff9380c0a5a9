"""Answers in the DICOM JSON model (PS3.18, annex F), with the attributes that QIDO-RS gives at each level."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydicom.datadict import tag_for_keyword

from cbir.addresses import is_uid
from cbir.levels import Group, Level, key
from cbir.external_links import resource_url
from cbir.store import Record
from cbir.store.instances import Related
from service.http.problems import Malformed

CREATOR = "CBIR SIMILARITY"  # of the private block (0077,xx10); PS3.5, 7.8.1
CODE = re.compile(r"[A-Z0-9 _]{1,16}")  # VR CS
MOST_FIELDS = 100
ALL = "all"


@dataclass(frozen=True)
class Found:
    """A group, and what is told of it.

    rank: from 1. archive: address that clients reach, None without one. thumbnail: relative address on the service.
    """

    rank: int
    group: Group
    level: Level
    record: Record
    related: Related
    archive: str | None
    thumbnail: str

    def uids(self) -> tuple[str, ...]:
        return key(self.group.best, self.level)


class Attribute(NamedTuple):
    """by_default: whether it is given unasked. value: None or () where there is none, and it is left empty."""

    level: Level
    tag: str
    vr: str
    value: Callable[[Found], Any]
    by_default: bool = True
    where_known: bool = False  # left out where it has no value


def _label(name: str) -> Callable[[Found], Any]:
    def value(found: Found) -> Any:
        said = found.record.labels.get(name, "")
        return said if CODE.fullmatch(said) else None  # people may set labels to anything

    return value


def _burned_in(found: Found) -> str | None:
    return "YES" if found.record.burned_in else None  # a header that says nothing does not say no


def _not_kept(_: Found) -> None:
    """Of what the archive knows and the collection does not keep."""


ATTRIBUTES = (
    # PS3.18, table 10.6.3-3; dates too, since the collection has at most shifted ones
    Attribute(Level.study, "00080020", "DA", _not_kept),
    Attribute(Level.study, "00080030", "TM", _not_kept),
    Attribute(Level.study, "00080050", "SH", _not_kept),
    Attribute(Level.study, "00080061", "CS", lambda found: list(filter(CODE.fullmatch, found.related.modalities))),
    Attribute(Level.study, "00080090", "PN", _not_kept),
    Attribute(Level.study, "00100010", "PN", _not_kept),
    Attribute(Level.study, "00100020", "LO", _not_kept),
    Attribute(Level.study, "00100030", "DA", _not_kept),
    Attribute(Level.study, "00100040", "CS", _not_kept),
    Attribute(Level.study, "0020000D", "UI", lambda found: found.record.study),
    Attribute(Level.study, "00200010", "SH", _not_kept),
    Attribute(Level.study, "00201206", "IS", lambda found: found.related.series),
    Attribute(Level.study, "00201208", "IS", lambda found: found.related.study_instances),
    # table 10.6.3-4
    Attribute(Level.series, "00080060", "CS", _label("modality")),
    Attribute(Level.series, "0020000E", "UI", lambda found: found.record.series),
    Attribute(Level.series, "00200011", "IS", _not_kept),
    Attribute(Level.series, "00201209", "IS", lambda found: found.related.series_instances),
    Attribute(Level.series, "00180015", "CS", _label("body_part"), by_default=False),
    Attribute(Level.series, "00200060", "CS", _label("laterality"), by_default=False),
    # table 10.6.3-5
    Attribute(Level.instance, "00080016", "UI", lambda found: found.record.sop_class),
    Attribute(Level.instance, "00080018", "UI", lambda found: found.record.instance),
    Attribute(Level.instance, "00200013", "IS", _not_kept),
    Attribute(Level.instance, "00280010", "US", lambda found: found.record.height),
    Attribute(Level.instance, "00280011", "US", lambda found: found.record.width),
    Attribute(Level.instance, "00185101", "CS", _label("view_position"), by_default=False),
    Attribute(Level.instance, "00280004", "CS", _label("photometric"), by_default=False),
    Attribute(Level.instance, "00280301", "CS", _burned_in, by_default=False),
)  # fmt: skip

# At every level. docs/orthanc.md says what each is.
OURS = (
    Attribute(Level.study, "00771001", "FD", lambda found: found.group.score),
    Attribute(Level.study, "00771002", "UL", lambda found: found.rank),
    Attribute(Level.study, "00771003", "UL", lambda found: found.group.found),
    Attribute(Level.study, "00771004", "FD", lambda found: found.group.best.distance),
    Attribute(Level.study, "00771005", "UI", lambda found: found.record.instance),
    Attribute(Level.study, "00771006", "UL", lambda found: found.record.frame, where_known=True),
    Attribute(Level.study, "00771007", "UR", lambda found: found.thumbnail),
    Attribute(Level.study, "00771008", "UR", lambda found: found.group.best.links.rendered, where_known=True),
    Attribute(Level.study, "00771009", "UR", lambda found: found.group.best.links.viewer, where_known=True),
)


def fields(given: Iterable[str]) -> set[str]:
    """The tags of `includefield` (PS3.18, 8.3.4.3): keywords or tags, with commas between, or "all".

    Raises Malformed for what is neither.
    """
    wanted = set()
    for word in (word.strip() for text in given for word in text.split(",")):
        if word == ALL:
            wanted.add(ALL)
        elif re.fullmatch(r"[0-9A-Fa-f]{8}(\.[0-9A-Fa-f]{8})*", word):
            wanted.add(word[:8].upper())
        elif all(tag_for_keyword(part) is not None for part in word.split(".")):
            wanted.add(f"{tag_for_keyword(word.partition('.')[0]):08X}")
        else:
            raise Malformed(f"includefield: {word[:64]!r} is no attribute; name a keyword, a tag, or all")
        if len(wanted) > MOST_FIELDS:
            raise Malformed(f"includefield: at most {MOST_FIELDS} attributes")
    return wanted


def dataset(found: Found, wanted: set[str]) -> dict[str, Any]:
    """One answer. wanted: of `fields`; attributes below the level are never given."""
    order = list(Level)
    above = [one for one in ATTRIBUTES if order.index(one.level) >= order.index(found.level)]
    chosen = [one for one in above if one.by_default or one.tag in wanted or ALL in wanted]
    told = {one.tag: _element(one, found) for one in (*chosen, *OURS)}
    told["00770010"] = {"vr": "LO", "Value": [CREATOR]}
    if found.archive and all(map(is_uid, found.uids())):
        told["00081190"] = {"vr": "UR", "Value": [resource_url(found.archive, *found.uids())]}
    return {tag: element for tag, element in sorted(told.items()) if element is not None}


def _element(attribute: Attribute, found: Found) -> Mapping[str, Any] | None:
    value = attribute.value(found)
    values = value if isinstance(value, list) else [] if value in (None, "") else [value]
    if not values:
        return None if attribute.where_known else {"vr": attribute.vr}
    return {"vr": attribute.vr, "Value": values}
