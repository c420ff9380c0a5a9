"""Catalogues of translated messages, `LANGUAGE/LC_MESSAGES/messages.po` in this folder."""

from collections.abc import Sequence
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from babel import Locale
from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import Translations

FOLDER = Path(__file__).parent
ENGLISH = "en"  # the language of the messages themselves
PLURAL_SAMPLE = (*range(1001), 10**6)  # numbers in which every plural category of a language occurs


class ScriptCatalogue(NamedTuple):
    """Forms of the messages of scripts by the English text. plurals: index of a plural form by its CLDR category."""

    plurals: dict[str, int]
    messages: dict[str, list[str]]


class Language:
    """A language of the pages, named as in its folder: `de`, `zh_Hans`."""

    def __init__(self, name: str) -> None:
        self.locale = Locale.parse(name)
        self.tag = name.replace("_", "-")  # BCP 47, as in HTML
        self.code = name.split("_")[0].upper()  # for a menu: DE
        title = self.locale.get_display_name() or name
        self.title = title[0].upper() + title[1:]  # in the language itself
        self.path = FOLDER / name / "LC_MESSAGES" / "messages.po"

    @cached_property
    def catalogue(self) -> Catalog:
        """The messages, or an empty catalogue for English."""
        if self.tag == ENGLISH:
            return Catalog(locale=self.locale)
        with self.path.open("rb") as file:
            return read_po(file, locale=str(self.locale))

    @cached_property
    def translations(self) -> Translations:
        """The messages as gettext looks them up."""
        compiled = BytesIO()
        write_mo(compiled, self.catalogue)
        compiled.seek(0)
        return Translations(compiled)

    @cached_property
    def script_catalogue(self) -> ScriptCatalogue:
        """The messages of scripts."""
        plural_index = self.translations.plural
        plurals = {self.locale.plural_form(n): plural_index(n) for n in PLURAL_SAMPLE}
        messages = {}
        for message in self.catalogue:
            forms = forms_of(message.string)
            if all(forms) and any(path.endswith(".js") for path, _ in message.locations):
                messages[forms_of(message.id)[0]] = forms
        return ScriptCatalogue(plurals, messages)


def forms_of(text: str | Sequence[str] | None) -> list[str]:
    """Return the plural forms of a message; one if it has none."""
    return [text or ""] if text is None or isinstance(text, str) else list(text)


@cache
def languages() -> dict[str, Language]:
    """Return all languages by tag, English first."""
    names = sorted(path.parts[-3] for path in FOLDER.glob("*/LC_MESSAGES/messages.po"))
    return {language.tag: language for language in map(Language, [ENGLISH, *names])}
