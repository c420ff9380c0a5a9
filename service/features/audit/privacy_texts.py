"""Texts, labels and paths that may identify a person, by their form or by name and number of the patient."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from cbir.store.records import originals
from cbir.store.records.records import hash_patient

WHYS = {  # the strongest first
    "own-name": "the patient's name, as the file's own tags have it",
    "own-number": "the patient's number, as the file's own tags or the patient key have it",
    "person": "name of a person",
    "number": "number of a patient or an examination",
    "e-mail": "e-mail address",
    "phone": "telephone number",
    "birth-date": "date of birth",
    "age": "age above 89 years",
    "date": "date of an examination",
    "personal-text": "text burned into the pixels, with a date, a long number or two words",
    "text": "text burned into the pixels",
    "declared-text": "DICOM says that text is burned into the pixels",
    "overlay": "overlay or curve, which may hold text",
    "place": "institution, department or address",
    "device": "serial number or name of a device",
    "private": "private attributes",
}
FORM_CHARACTERS = 24
DUMMY = re.compile(
    r"(?:anon\w*|de[-_ ]?id\w*|removed|masked|redacted|dummy|phantom|test|none|null|unknown|no[-_ ]?name|n/?a|x+|0+"
    r"|\W*)",
    re.IGNORECASE,
)
DIGEST_OR_UID = re.compile(
    r"(?<![^\W_])(?:\d+(?:\.\d+){4,}|[0-9a-fA-F]{16,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?![^\W_])"
)
WORD = r"[^\W\d_]{2,}"
FORMS = {
    "e-mail": re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}"),
    "person": re.compile(
        rf"(?<![^\W_]){WORD}\^{WORD}(?:\^\w+)*|(?<![^\W_])(?:Dr|Prof|Mrs|Herr|Frau|Mme)[\s._]+[A-ZÀ-Þ][a-zß-ÿ]{{2,}}"
    ),
    "date": re.compile(
        r"(?<!\d)(?:(?:19|20[0-3])\d([-._/ ]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
        r"|(?:0?[1-9]|[12]\d|3[01])([-._/])(?:0?[1-9]|[12]\d|3[01])\2(?:19|20[0-3])\d)(?!\d)"
    ),
    "phone": re.compile(
        r"(?<!\w)\+\d{1,3}[ ./(-]{0,2}\d{2}[\d ./()-]*\d{2}|(?<!\d)\(?\d{3}\)?[- .]\d{3}[- .]\d{4}(?!\d)"
        r"|(?<![^\W_])(?:tel|phone|fon)[:. _]*\d{5,}",
        re.IGNORECASE,
    ),
    "number": re.compile(
        r"(?<![^\W_])(?:mrn|pid|patid|pat(?:ient)?[ _-]?(?:id|no|nr|number)|ssn|accession)[ _:=#-]*\d{5,}"
        r"|(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)",
        re.IGNORECASE,
    ),
}
LEAST_NAME, LEAST_INNER_NAME = 3, 5  # letters of a family name as a word, and inside of a longer one
LEAST_WITHOUT_CASE = 2  # characters of a family name in a script without upper case, such as Chinese
LEAST_NUMBER, LEAST_DIGITS = 4, 3  # characters of a patient's number, and digits among them
KEY_NUMBER = re.compile(r"[1-9]\d{5,}")  # others are compared with no key: p017 or 00042 count patients
TOKEN = re.compile(r"[^\W_]+")
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


@dataclass(frozen=True)
class Sign:
    """A sign of a person. part: of the tags, labels, path or pixels; why: one of WHYS; form: see `form_of`."""

    part: str
    why: str
    form: str = ""


class Mention(NamedTuple):
    """A part of a text, from start to end, that may identify a person."""

    start: int
    end: int
    why: str


def form_of(value: str) -> str:
    """Return a value with each word as `a` and each digit as `9`, which says how it looks and not what it says."""
    without_words = re.sub(r"[^\W\d_]+", "a", value)
    return re.sub(r"\d", "9", without_words)[:FORM_CHARACTERS]


def is_dummy(value: str) -> bool:
    """Return whether a value says nothing: empty, a word such as "anonymous", a UID or the digest of something."""
    text = value.strip()
    return DUMMY.fullmatch(text) is not None or DIGEST_OR_UID.fullmatch(text) is not None


@lru_cache(maxsize=50_000)  # values of labels and names of folders come back
def mentions_by_form(text: str) -> tuple[Mention, ...]:
    """Return parts of a text with the form of an e-mail address, a name (`Family^Given`), a date or a number."""
    bare = DIGEST_OR_UID.sub(lambda match: " " * len(match.group()), text)
    mentions = list[Mention]()
    for why, pattern in FORMS.items():
        for match in pattern.finditer(bare):
            if not any(match.start() < other.end and other.start < match.end() for other in mentions):
                mentions.append(Mention(*match.span(), why))
    return tuple(mentions)


def spellings(word: str) -> frozenset[str]:
    """Return a name in lower case, without accents, and with German umlauts as two letters."""
    lower = word.casefold()
    german = lower.translate({ord("ä"): "ae", ord("ö"): "oe", ord("ü"): "ue"})
    return frozenset(_without_accents(each) for each in (lower, german))


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@dataclass(frozen=True)
class Identity:
    """A patient. families: spellings of the family name; number: the identifier; key: keyed hash of it.

    is_pseudonym: the file says that its patient's identity was removed, so the number identifies no one.
    has_no_words: texts have the family name without spaces around it, or read in a wrong character set.
    """

    families: frozenset[str] = frozenset()
    number: str = ""
    key: str | None = None
    secret: bytes = b""
    is_pseudonym: bool = False
    has_no_words: bool = False

    def mentions(self, text: str) -> list[Mention]:
        """Return the parts of a text that identify a person: this patient, or any by their form; none overlap."""
        of_patient = [*self._names(text), *self._numbers(text)]
        return of_patient + [
            mention
            for mention in mentions_by_form(text)
            if not any(mention.start < other.end and other.start < mention.end for other in of_patient)
        ]

    def _names(self, text: str) -> Iterator[Mention]:
        if not self.families:
            return
        if self.has_no_words:
            for family in self.families:
                matches = re.finditer(rf"{re.escape(family)}", text, re.IGNORECASE)
                yield from (Mention(*match.span(), "own-name") for match in matches)
            return
        for word in re.finditer(r"[^\W\d_]+", text):
            read = spellings(word.group())
            if any(
                family in spelling if len(family) >= LEAST_INNER_NAME else family == spelling
                for family in self.families
                for spelling in read
            ):
                yield Mention(*word.span(), "own-name")

    def _numbers(self, text: str) -> Iterator[Mention]:
        if self.is_pseudonym:
            return
        if self.number:
            matches = re.finditer(rf"(?<![^\W_]){re.escape(self.number)}(?![^\W_])", text, re.IGNORECASE)
            yield from (Mention(*match.span(), "own-number") for match in matches)
        elif self.key:
            for token in TOKEN.finditer(text):
                if (
                    KEY_NUMBER.fullmatch(token.group())
                    and hash_patient(self.secret, token.group()) == self.key
                ):
                    yield Mention(*token.span(), "own-number")


def patient_identity(
    name: str, number: str, *, key: str | None = None, secret: bytes = b"", is_pseudonym: bool = False
) -> Identity:
    """Return the patient with a name and a number.

    Parameters
    ----------
    name : str
        As in DICOM: family name, ^, given name. Empty if unknown.
    number : str
        Patient ID; empty if unknown.
    key, secret
        Keyed hash of the number, and the key of the collection.
    is_pseudonym : bool
        Whether the identity was removed: neither name nor number is looked for, unless the name has two parts.
    """
    family = re.split(r"[\^,=]", name.strip())[0].strip()
    has_no_case = family.upper() == family.lower()
    is_misread = not family.isprintable() or not (family.isascii() or family.isalpha())
    has_no_words = is_misread or (has_no_case and not family.isascii())
    least = LEAST_WITHOUT_CASE if has_no_case else LEAST_NAME
    is_name = len(family) >= least and (family.isalpha() or has_no_words) and not is_dummy(family)
    families = frozenset([family]) if has_no_words else spellings(family)
    has_number = len(number) >= LEAST_NUMBER and sum(map(str.isdigit, number)) >= LEAST_DIGITS
    return Identity(
        families if is_name and not (is_pseudonym and "^" not in name) else frozenset(),
        number if has_number and not is_dummy(number) else "",
        key,
        secret,
        is_pseudonym,
        has_no_words,
    )


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
