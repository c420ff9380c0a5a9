"""Reasons why something may identify a person, and texts that do so by their form."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

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
