"""Teaching file as PDF, with reportlab (extra `pdf`)."""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from cbir.errors import InvalidInput
from cbir.system.remedies import missing_package
from service.features.saved.cases.pdf_text import LATIN, paragraph, register_fonts
from service.features.saved.cases.teaching_file import TeachingFile, TeachingPicture

MARGIN = 42.0  # points, as all lengths here
COLUMNS = 4
GAP = 8.0
QUERY_SHARE = 0.42  # of the width


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


_CELLS = [
    ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ("LEFTPADDING", (0, 0), (-1, -1), 0),
    ("RIGHTPADDING", (0, 0), (-1, -1), GAP),
    ("TOPPADDING", (0, 0), (-1, -1), 0),
    ("BOTTOMPADDING", (0, 0), (-1, -1), GAP),
]


def _draw_footer(canvas: Any, document: Any, text: str, own_font: bool) -> None:
    from reportlab.lib.styles import ParagraphStyle

    small = ParagraphStyle("footer", fontName=LATIN, fontSize=7, leading=9)
    line = paragraph(text, small, own_font)
    line.wrap(document.width, MARGIN)
    line.drawOn(canvas, MARGIN, MARGIN / 2)
