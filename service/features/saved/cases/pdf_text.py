"""Text of PDF files: fonts that cover it, and line breaks."""

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from cbir.errors import InvalidInput

LATIN, SYMBOLS = "Helvetica", "Symbol"  # every PDF reader has these
# Fonts that PDF readers replace by one that the machine has (ISO 32000-1, 9.7.5.2), so that no font file is needed
CHINESE, KOREAN = "STSong-Light", "HYSMyeongJo-Medium"
OWN = "cbir-own"
HANGUL = (range(0x1100, 0x1200), range(0x3130, 0x3190), range(0xAC00, 0xD7B0))
BREAKABLE = 0x2E80  # from here on lines may break between any two letters


@cache
def register_fonts(font: Path | None) -> None:
    """Register the fonts of PDF files; raises InvalidInput if the `font` cannot be used."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfbase.ttfonts import TTFError, TTFont

    for name in (CHINESE, KOREAN):
        pdfmetrics.registerFont(UnicodeCIDFont(name))
    if font is not None:
        try:
            pdfmetrics.registerFont(TTFont(OWN, str(font)))
        except (TTFError, OSError) as error:
            raise InvalidInput(
                f"the setting pdf_font: {font} is no TrueType font that can be used"
            ) from error


def marked_up(text: str, own_font: bool) -> str:
    """Return text as markup of reportlab paragraphs, each run of letters in a font that has them.

    Parameters
    ----------
    text : str
        Plain text; line breaks are kept.
    own_font : bool
        Use the font of the setting for all letters.
    """
    printable = "".join(letter for letter in text if letter.isprintable() or letter == "\n")
    runs = [(OWN, printable)] if own_font else _runs(printable)
    marked = "".join(f'<font name="{font}">{escape(run)}</font>' for font, run in runs)
    return marked.replace("\n", "<br/>")


def breaks_anywhere(text: str) -> bool:
    """Return whether the text has letters between which a line may break without a space."""
    return any(ord(letter) >= BREAKABLE for letter in text)


def _runs(text: str) -> Iterator[tuple[str, str]]:
    for font, letters in groupby(text, _font_of):
        yield font, "".join(letters)


def _font_of(letter: str) -> str:
    if any(ord(letter) in block for block in HANGUL):
        return KOREAN
    if _is_latin(letter):
        return LATIN
    return SYMBOLS if letter in _symbols() else CHINESE


def _is_latin(letter: str) -> bool:
    """Return whether the font Helvetica of PDF has the letter."""
    try:
        letter.encode("cp1252")
    except UnicodeEncodeError:
        return False
    return True


@cache
def _symbols() -> frozenset[str]:
    """Return the letters of the font Symbol: Greek, arrows and signs of mathematics."""
    import reportlab.pdfbase.pdfmetrics  # noqa: F401 - registers the encoding

    return frozenset(bytes(range(256)).decode("symbol", "ignore"))


def paragraph(text: str, style: Any, own_font: bool) -> Any:
    """Return a reportlab paragraph of plain text.

    Parameters
    ----------
    text : str
    style : ParagraphStyle
    own_font : bool
        Use the font of the setting for all letters.
    """
    from reportlab.platypus import Paragraph

    wrap = "CJK" if breaks_anywhere(text) else "LTR"
    return Paragraph(marked_up(text, own_font), style.clone(style.name, wordWrap=wrap))
