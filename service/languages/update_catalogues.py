"""Bring the catalogues up to date with the messages in the source: python -m service.languages.update_catalogues."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path

from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po

from service.languages.catalogues import ENGLISH, Language, folders, forms_of, languages

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


METHODS = [
    ("features/**", "ignore"),  # of the core
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


def extract_messages(folder: Path) -> Catalog:
    """Return the messages of the modules, templates and scripts of the core or a feature, each with its files."""
    template = Catalog(charset="utf-8")
    found = extract_from_dir(folder, METHODS, OPTIONS, KEYWORDS)
    for path, _, message, _, context in sorted(found, key=lambda item: (item[0], item[1])):
        template.add(message, locations=[(path, 0)], context=context)
    return template


def update(language: Language, path: Path, template: Catalog) -> Catalog:
    """Add the messages of `template` to a catalogue, drop those that are no longer in use, and return it.

    A new one begins as the core's, whose plural forms it has.
    """
    catalogue = language.read(path if path.exists() else language.paths[0])
    template.creation_date = catalogue.creation_date  # else each run would change the file
    catalogue.header_comment = f"# {HEADER}"
    catalogue.project, catalogue.version = "cbir", "1"
    catalogue.update(template, no_fuzzy_matching=True)
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        write_po(
            file, catalogue, width=LINE_WIDTH, ignore_obsolete=True, include_lineno=False, sort_by_file=True
        )
    return catalogue


if __name__ == "__main__":
    sources = [extract_messages(folder) for folder in folders()]
    for each in languages().values():
        if each.tag != ENGLISH:
            updated = [
                update(each, path, source)
                for path, source in zip(each.paths, sources, strict=True)
                if len(source)
            ]
            texts = [message for catalogue in updated for message in catalogue if message.id]
            missing = sum(not all(forms_of(message.string)) for message in texts)
            print(f"{each.tag}: {len(texts)} messages, {missing} without a translation")
