"""Bring the catalogues up to date with the messages in the source: python -m service.languages.update_catalogues."""

from collections.abc import Iterator
from pathlib import Path

from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po

import service
from service.languages.catalogues import languages

SERVICE = Path(service.__file__).parent
METHODS = [
    ("**.py", "python"),
    ("**/templates/**.html", "jinja2.ext:babel_extract"),
    ("**/static/**.js", "javascript"),
]
OPTIONS = {
    "**/templates/**.html": {"trimmed": "true", "silent": "false"},
    "**/static/**.js": {"template_string": "false"},
}
KEYWORDS = {
    "_": None,
    "gettext": None,
    "mark": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
    "tr": None,
    "trn": (1, 2),
}
LINE_WIDTH = 110


def extract_messages() -> Catalog:
    """Return the messages of Python modules, templates and scripts, each with the files that it is in."""
    template = Catalog(charset="utf-8")
    for path, message, context in _found_messages():
        template.add(message, locations=[(path, 0)], context=context)
    return template


def _found_messages() -> Iterator[tuple[str, str | tuple[str, ...], str | None]]:
    found = extract_from_dir(SERVICE, METHODS, OPTIONS, KEYWORDS)
    for path, _, message, _, context in sorted(found, key=lambda item: (item[0], item[1])):
        yield path, message, context


def update(path: Path, catalogue: Catalog, template: Catalog) -> None:
    """Add the messages of `template` to a catalogue in the file `path` and drop those that are no longer in use."""
    catalogue.update(template, no_fuzzy_matching=True)
    with path.open("wb") as file:
        write_po(
            file, catalogue, width=LINE_WIDTH, ignore_obsolete=True, include_lineno=False, sort_by_file=True
        )


if __name__ == "__main__":
    messages = extract_messages()
    for language in languages().values():
        if language.path.exists():
            update(language.path, language.catalogue, messages)
            missing = sum(not message.string for message in language.catalogue if message.id)
            print(f"{language.tag}: {len(language.catalogue)} messages, {missing} without a translation")
