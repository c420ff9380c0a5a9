"""Name and number of a file's patient, to look for in its labels, its path and its texts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cbir.store.records.records import hash_patient
from service.features.audit.checks.privacy_words import Mention, is_dummy, mentions_by_form, spellings

LEAST_NAME, LEAST_INNER_NAME = 3, 5  # letters of a family name as a word, and inside of a longer one
LEAST_NUMBER, LEAST_DIGITS = 4, 3  # characters of a patient's number, and digits among them
KEY_NUMBER = re.compile(r"[1-9]\d{5,}")  # others are compared with no key: p017 or 00042 count patients
TOKEN = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Identity:
    """A patient. families: spellings of the family name; number: the identifier; key: keyed hash of it.

    is_pseudonym: the file says that its patient's identity was removed, so the number identifies no one.
    """

    families: frozenset[str] = frozenset()
    number: str = ""
    key: str | None = None
    secret: bytes = b""
    is_pseudonym: bool = False

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
    is_name = len(family) >= LEAST_NAME and family.isalpha() and not is_dummy(family)
    has_number = len(number) >= LEAST_NUMBER and sum(map(str.isdigit, number)) >= LEAST_DIGITS
    return Identity(
        spellings(family) if is_name and not (is_pseudonym and "^" not in name) else frozenset(),
        number if has_number and not is_dummy(number) else "",
        key,
        secret,
        is_pseudonym,
    )
