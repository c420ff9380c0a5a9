"""Texts of templates and scripts that a person sees and that are not marked for translation."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

# Templates
TRANS_BLOCK = re.compile(r"\{%-?\s*trans\b.*?endtrans\s*-?%\}", re.S)
EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.S)
MARKED_IN_TEMPLATES = re.compile(r'\b(?:_|gettext|ngettext|pgettext)\(\s*(?:"(?:[^"\\]|\\.)*"\s*,?\s*)+')
SEEN_ATTRIBUTES = {"title", "aria-label", "placeholder", "alt", "label", "data-explanation"}
UNTRANSLATED_TAGS = {"code", "kbd", "style", "script"}
NAMES = {"cbir", "Backspace", "Label Studio"}

# Scripts
COMMENT = re.compile(r"/\*.*?\*/|(?:^|(?<=\s))//[^\n]*", re.S)
MARKED_IN_SCRIPTS = re.compile(r'\b(?:tr|trn|mark)\(\s*(?:"(?:[^"\\]|\\.)*"\s*,?\s*)+')
LITERAL = r"(\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`)"
INTERNAL_ERROR = re.compile(r"new (?:Range|Type)?Error\(\s*" + LITERAL)
SENTENCE = re.compile(LITERAL)
SHOWN = re.compile(
    r'(?:\.(?:textContent|title|alt|placeholder|ariaLabel) = |"aria-label", |"title", |element\("\w+", "[^"]*", )'
    + LITERAL
)


class _SeenTexts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.untranslated = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.untranslated += tag in UNTRANSLATED_TAGS
        self.texts += [value for name, value in attrs if value and name in SEEN_ATTRIBUTES]

    def handle_endtag(self, tag: str) -> None:
        self.untranslated -= tag in UNTRANSLATED_TAGS

    def handle_data(self, data: str) -> None:
        if not self.untranslated:
            self.texts.append(data)


def unmarked_in_template(source: str) -> Iterator[str]:
    """Yield the texts of a Jinja template that are not in `_()` or a trans block."""
    source = TRANS_BLOCK.sub("", source)
    page = _SeenTexts()
    page.feed(EXPRESSION.sub("", source))
    for text in page.texts:
        words = set(re.findall(r"[A-Za-z]{2,}", re.sub(r"\w+=\w+", "", text)))
        if words - NAMES:
            yield text.strip()
    for expression in EXPRESSION.findall(source):
        for literal in re.findall(r'"([^"]*)"', MARKED_IN_TEMPLATES.sub("", expression)):
            if re.match(r"[A-Z][a-z]+|[a-z]{2,} [a-z]{2,}", literal) and literal not in NAMES:
                yield literal


def unmarked_in_script(source: str) -> Iterator[str]:
    """Yield the texts of a JavaScript module that are not in `tr`, `trn` or `mark`."""
    source = MARKED_IN_SCRIPTS.sub("tr(", COMMENT.sub("", source))
    source = INTERNAL_ERROR.sub("", source)
    for literal in SENTENCE.findall(source):
        if re.match(r"[A-Z][^\n]*[a-z][.,:;]? [a-z$]", literal[1:]):
            yield literal
    for literal in SHOWN.findall(source):
        if re.search(r"[A-Za-z]{3}", re.sub(r"\$\{[^}]*\}", "", literal)):
            yield literal
