"""Bring the catalogues up to date with the messages in the source: python -m service.languages.update_catalogues."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path

from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po

import service
from service.languages.catalogues import Language, forms_of, languages

COMMENT = re.compile(r"^[ \t]*/?\*[^\n]*|(?:^|(?<=\s))//[^\n]*", re.M)  # one line, also of a longer comment
TEXT = r'("(?:[^"\\\n]|\\.)*")'
CALL = re.compile(rf"\b(tr|mark)\(\s*{TEXT}|\b(trn)\(\s*{TEXT}\s*,\s*{TEXT}")
ScriptMessage = tuple[int, str, str | tuple[str, str], list[str]]


def extract_from_script(
    file: BufferedIOBase, keywords: Sequence[str], comment_tags: Sequence[str], options: Mapping[str, object]
) -> Iterator[ScriptMessage]:
    """Yield line, function, text and comments of each call of `tr`, `trn` and `mark`.

    Babel's own extraction misses calls in template strings whose values are in braces.

    Parameters
    ----------
    file : file
        The module.
    keywords, comment_tags : sequence of str
        Of Babel's interface; not used.
    options : mapping
        Of Babel's interface; not used.
    """
    source = COMMENT.sub("", file.read().decode())
    for match in CALL.finditer(source):
        name, text, plural_name, singular, plural = match.groups()
        line = source.count("\n", 0, match.start()) + 1
        if plural_name:
            yield line, plural_name, (json.loads(singular), json.loads(plural)), []
        else:
            yield line, name, json.loads(text), []


SERVICE = Path(service.__file__).parent
METHODS = [
    ("**/static/swagger-ui/**", "ignore"),
    ("**/static/vendor/**", "ignore"),
    ("**.py", "python"),
    ("**/templates/**.html", "jinja2.ext:babel_extract"),
    ("**/static/**.js", "service.languages.update_catalogues:extract_from_script"),
]
OPTIONS = {"**/templates/**.html": {"trimmed": "true", "silent": "false"}}
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
HEADER = "Messages of the pages of cbir. How to translate: docs/languages.md."
Message = tuple[str, str | tuple[str, ...], str | None]  # file, text or forms, context


def extract_messages() -> Catalog:
    """Return the messages of Python modules, templates and scripts, each with the files that it is in."""
    template = Catalog(charset="utf-8")
    for path, message, context in _messages_of_files():
        template.add(message, locations=[(path, 0)], context=context)
    return template


def _messages_of_files() -> Iterator[Message]:
    messages = extract_from_dir(SERVICE, METHODS, OPTIONS, KEYWORDS)
    for path, _, message, _, context in sorted(messages, key=lambda item: (item[0], item[1])):
        yield path, message, context


def update(language: Language, template: Catalog) -> None:
    """Add the messages of `template` to a catalogue and drop those that are no longer in use."""
    catalogue = language.catalogue
    template.creation_date = catalogue.creation_date  # else each run would change the file
    catalogue.header_comment = f"# {HEADER}"
    catalogue.project, catalogue.version = "cbir", "1"
    catalogue.update(template, no_fuzzy_matching=True)
    with language.path.open("wb") as file:
        write_po(
            file, catalogue, width=LINE_WIDTH, ignore_obsolete=True, include_lineno=False, sort_by_file=True
        )


if __name__ == "__main__":
    messages = extract_messages()
    for each in languages().values():
        if each.path.exists():
            update(each, messages)
            missing = sum(not all(forms_of(message.string)) for message in each.catalogue if message.id)
            print(f"{each.tag}: {len(each.catalogue)} messages, {missing} without a translation")
