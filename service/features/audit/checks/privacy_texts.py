"""Labels and paths of images that may identify a person."""

import re
from collections.abc import Collection, Mapping
from itertools import takewhile

from cbir.store.records import originals
from service.features.audit.checks.privacy_identity import Identity
from service.features.audit.checks.privacy_words import Sign, form_of, is_dummy

OWN_LABELS = ("intake", "study_date")  # that cbir writes itself; dates are shifted by patient
PART = re.compile(r"[^/\\]+")
PERSONAL_KEYS = {
    "person": r"(?:patient|family|last|first|given|sur)_?names?|surname|physician|radiologist|doctor",
    "birth-date": r"dob|birth_?dates?|date_of_birth|birthday",
    "number": r"mrn|ssn|accession(?:_?number)?|insurance|patient_?(?:id|no|nr|number)",
    "phone": r"phone|telephone",
    "e-mail": r"e_?mail",
    "place": r"address|institution|hospital",
}
KEYS = {why: re.compile(rf"(?:^|_)(?:{words})(?:$|_)") for why, words in PERSONAL_KEYS.items()}


def label_signs(labels: Mapping[str, str], identity: Identity) -> list[Sign]:
    """Return the signs of persons in labels, one for each at most.

    `identity`: of the image's patient. A key such as `patient_name` is a sign by itself, unless its value is a word
    like "anonymous", a UID or a digest.
    """
    signs = list[Sign]()
    for key, value in labels.items():
        if key in OWN_LABELS or is_dummy(value):
            continue
        why = next((mention.why for mention in identity.mentions(value)), None) or _why_of_key(key, identity)
        if why is not None:
            signs.append(Sign(key, why, form_of(value)))
    return signs


def _why_of_key(key: str, identity: Identity) -> str | None:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|\W+", "_", key).lower()
    why = next((why for why, pattern in KEYS.items() if pattern.search(words)), None)
    return None if why == "number" and identity.is_pseudonym else why


def path_signs(source: str, common: int, identity: Identity) -> list[Sign]:
    """Return the signs of persons in a path.

    Parameters
    ----------
    source : str
        Path or address of a file; the name of an upload is a hash, and is not looked at.
    common : int
        Number of leading folders that all files are in: there, dates do not count.
    identity : Identity
        Patient of the file.

    Returns
    -------
    list of Sign
        `part` is "file name", or "folder 1" for the folder that the file is in, "folder 2" for the one above, ...
    """
    if source.startswith(originals.UPLOAD):
        return []
    parts = list(PART.finditer(source))
    signs = list[Sign]()
    for position, part in enumerate(parts):
        above = len(parts) - 1 - position
        name = f"folder {above}" if above else "file name"
        for mention in identity.mentions(part.group()):
            if position < common and mention.why == "date":  # as of a release of the data
                continue
            signs.append(Sign(name, mention.why, form_of(part.group()[mention.start : mention.end])))
    return signs


def common_folders(sources: Collection[str]) -> int:
    """Return the number of leading folders that all paths have."""
    shortest, longest = min(sources, default=""), max(sources, default="")
    both = zip(PART.findall(shortest)[:-1], PART.findall(longest)[:-1], strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], both)))
