"""Teaching file as PDF, with reportlab (extra `pdf`)."""

from collections.abc import Iterator
from functools import cache, partial
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from cbir.errors import InvalidInput
from cbir.system.remedies import missing_package
from service.features.saved.cases.teaching_file import TeachingFile, TeachingPicture

LATIN, SYMBOLS = "Helvetica", "Symbol"  # every PDF reader has these
# Fonts that PDF readers replace by one that the machine has (ISO 32000-1, 9.7.5.2), so that no font file is needed
CHINESE, KOREAN = "STSong-Light", "HYSMyeongJo-Medium"
OWN = "cbir-own"
HANGUL = (range(0x1100, 0x1200), range(0x3130, 0x3190), range(0xAC00, 0xD7B0))
BREAKABLE = 0x2E80  # from here on lines may break between any two letters
MARGIN = 42.0  # points, as all lengths here
COLUMNS = 4
GAP = 8.0
QUERY_SHARE = 0.42  # of the width
_CELLS = [
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ("LEFTPADDING", (0, 0), (-1, -1), 0),
    ("RIGHTPADDING", (0, 0), (-1, -1), GAP),
    ("TOPPADDING", (0, 0), (-1, -1), 0),
    ("BOTTOMPADDING", (0, 0), (-1, -1), GAP),
]


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


def can_write_pdf() -> bool:
    """Return whether the extra `pdf` is installed."""
    from importlib.util import find_spec

    return find_spec("reportlab") is not None


def render_pdf(content: TeachingFile, font: Path | None = None) -> bytes:
    """Return the PDF file.

    Parameters
    ----------
    content : TeachingFile
    font : Path, optional
        TrueType font that is embedded and used for all text, see the setting `pdf_font`.

    Raises
    ------
    InvalidInput
        Without reportlab, or if the font cannot be used.
    """
    try:
        from reportlab.lib.pagesizes import A4
        from reportlab.platypus import SimpleDocTemplate
    except ModuleNotFoundError as error:
        raise InvalidInput(f"format: {missing_package(error)}; html needs nothing else") from error
    register_fonts(font)
    file = BytesIO()
    margins = {f"{side}Margin": MARGIN for side in ("left", "right", "top", "bottom")}
    document = SimpleDocTemplate(
        file, pagesize=A4, **margins, title=content.title, author="", creator="cbir", invariant=1
    )
    draw_footer = partial(_draw_footer, text=content.headings["footer"], own_font=font is not None)
    story = _Layout(document.width, font is not None).story(content)
    document.build(story, onFirstPage=draw_footer, onLaterPages=draw_footer)
    return file.getvalue()


class _Layout:
    """Parts of the document. width: of the page without margins. own_font: whether a font of the setting is used."""

    def __init__(self, width: float, own_font: bool) -> None:
        from reportlab.lib.styles import ParagraphStyle

        self.width = width
        self.own_font = own_font
        self.body = ParagraphStyle("body", fontName=LATIN, fontSize=9.5, leading=13, spaceAfter=5)
        self.small = ParagraphStyle("small", parent=self.body, fontSize=7.5, leading=9.5, spaceAfter=0)
        self.heading = ParagraphStyle("heading", parent=self.body, fontSize=12, leading=16, spaceBefore=12)
        self.title = ParagraphStyle("title", parent=self.body, fontSize=16, leading=21, spaceAfter=10)

    def story(self, content: TeachingFile) -> list[Any]:
        from reportlab.platypus import Spacer

        words = content.headings
        note = [self._text(text, self.body) for text in content.paragraphs]
        note += [self._text(f"{name}: {value}", self.small) for name, value in content.facts]
        parts = [self._text(content.title, self.title)]
        if content.query:
            inner = self.width * QUERY_SHARE - GAP
            parts += [*self._picture(content.query, inner, words["no_picture"]), Spacer(1, GAP)]
        parts += note
        if content.answers:
            parts += [self._text(words["answers"], self.heading), self._answers(content, words["no_picture"])]
        return parts

    def _answers(self, content: TeachingFile, no_picture: str) -> Any:
        from reportlab.platypus import Table

        width = self.width / COLUMNS
        cells: list[Any] = [self._picture(picture, width - GAP, no_picture) for picture in content.answers]
        cells += [""] * (-len(cells) % COLUMNS)
        rows = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
        return Table(rows, colWidths=[width] * COLUMNS, style=_CELLS, hAlign="LEFT")

    def _picture(self, picture: TeachingPicture, side: float, no_picture: str) -> list[Any]:
        from reportlab.platypus import Image

        if picture.data is None:
            drawn = self._text(no_picture, self.small)
        else:
            drawn = Image(BytesIO(picture.data))
            scale = side / max(drawn.imageWidth, drawn.imageHeight)
            drawn.drawWidth, drawn.drawHeight = drawn.imageWidth * scale, drawn.imageHeight * scale
            drawn.hAlign = "LEFT"
        return [drawn, *(self._text(line, self.small) for line in picture.lines)]

    def _text(self, text: str, style: Any) -> Any:
        return paragraph(text, style, self.own_font)


def _draw_footer(canvas: Any, document: Any, text: str, own_font: bool) -> None:
    from reportlab.lib.styles import ParagraphStyle

    small = ParagraphStyle("footer", fontName=LATIN, fontSize=7, leading=9)
    line = paragraph(text, small, own_font)
    line.wrap(document.width, MARGIN)
    line.drawOn(canvas, MARGIN, MARGIN / 2)
