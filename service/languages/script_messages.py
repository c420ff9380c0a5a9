"""Messages of the pages' scripts, for Babel."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase

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
