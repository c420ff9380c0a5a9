"""Catalogues of translated messages: `languages/LANGUAGE.po` of the core and of each feature."""

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

from cbir.system.features import features

CORE = Path(__file__).parents[1]  # folder of the core
ENGLISH = "en"  # the language of the messages themselves
PLURAL_SAMPLE = (*range(1001), 10**6)  # numbers in which every plural category of a language occurs


class ScriptCatalogue(NamedTuple):
    """Forms of the messages of scripts by the English text. plurals: index of a plural form by its CLDR category."""

    plurals: dict[str, int]
    messages: dict[str, list[str]]


class Language:
    """A language of the pages, named as its catalogues are: `de`, `zh_Hans`. folders: of the core and features."""

    def __init__(self, name: str, folders: Sequence[Path]) -> None:
        self.locale = Locale.parse(name)
        self.tag = name.replace("_", "-")  # BCP 47, as in HTML
        self.code = name.split("_")[0].upper()  # for a menu: DE
        title = self.locale.get_display_name() or name
        self.title = title[0].upper() + title[1:]  # in the language itself
        self.paths = [folder / "languages" / f"{name}.po" for folder in folders]

    @cached_property
    def catalogue(self) -> Catalog:
        """All messages; none for English. Of a message that several catalogues have, the first translation counts."""
        core, *others = map(self.read, self.paths)  # the core's has the plural forms
        for message in (message for catalogue in others for message in catalogue):
            if message.id:
                core[message.id] = message
        return core

    def read(self, path: Path) -> Catalog:
        """Return the messages in one of `paths`; none without the file."""
        if not path.exists():
            return Catalog(locale=self.locale)
        with path.open("rb") as file:
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
    names = sorted(path.stem for path in (CORE / "languages").glob("*.po"))
    return {language.tag: language for language in (Language(name, folders()) for name in [ENGLISH, *names])}


def folders() -> list[Path]:
    """Return the folder of the core, and those of features with pages."""
    packages = [feature.load(feature.package) for feature in features() if feature.package]
    return [CORE, *(Path(package.__file__).parent for package in packages)]
