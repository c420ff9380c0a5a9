"""Teaching file: pictures and words of a case that identify no patient by themselves, and its HTML document."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO

from flask import render_template
from PIL import Image

from cbir import rerank
from cbir.images import Region
from cbir.ingest.decoder_tasks import render_choice
from cbir.rerank.feedback import Feedback
from cbir.store import Collection, Record
from service.collections.app_state import AppState
from service.collections.image_sources import decode_source
from service.features.saved.cases import tables as saved_cases
from service.features.saved.cases.visible_cases import VisibleCase
from service.features.saved.messages import CaseAnswer
from service.http.problems import SourceGone
from service.languages import gettext
from service.state.database import state_database

QUALITY = 88  # of JPEG files
DEFAULT_ANSWERS = 12
DEFAULT_LABELS = ("label",)
MAX_LINE = 100  # characters of a label and its value
QUERY_SIDE, ANSWER_SIDE = 1024, 512  # pixels


def picture_of_record(
    state: AppState, collection: Collection, record: Record, side: int, region: Region | None = None
) -> bytes | None:
    """Return an image of a collection, rendered from its file, or else its thumbnail; None without both.

    Parameters
    ----------
    state : AppState
    collection : Collection
    record : Record
    side : int
        Longest side in pixels.
    region : tuple of int, optional
        Part of the image: x, y, width, height. Of an image whose file is gone the whole thumbnail is returned.
    """
    render = partial(render_choice, side=side)
    try:
        return to_jpeg(decode_source(state.decoders, collection, record, render, region).data, side)
    except SourceGone:
        thumbnail = collection.thumbnail(record.image_id)
        return to_jpeg(thumbnail, side) if thumbnail else None


def to_jpeg(data: bytes, side: int, region: Region | None = None) -> bytes:
    """Encode a picture that the service itself has made as JPEG.

    Parameters
    ----------
    data : bytes
        PNG or JPEG.
    side : int
        Longest side in pixels.
    region : tuple of int, optional
        Part of the picture: x, y, width, height.
    """
    with Image.open(BytesIO(data)) as picture:
        grey = picture.mode in ("1", "L")
        pixels = picture.convert("L" if grey else "RGB")
    if region:
        x, y, width, height = region
        pixels = pixels.crop((x, y, min(x + width, pixels.width), min(y + height, pixels.height)))
    pixels.thumbnail((side, side))
    file = BytesIO()
    pixels.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


@dataclass(frozen=True)
class TeachingPicture:
    """A picture and the lines below it. data: JPEG, None if the picture is gone."""

    data: bytes | None
    lines: tuple[str, ...]


@dataclass(frozen=True)
class TeachingFile:
    """Everything that a teaching file shows, in the language of the request.

    paragraphs: of the note; may have line breaks. facts: names and values. query: None for a search by words.
    """

    title: str
    paragraphs: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    query: TeachingPicture | None
    answers: tuple[TeachingPicture, ...]

    @property
    def headings(self) -> dict[str, str]:
        """Words of the layout by name."""
        return {
            "query": gettext("Query"),
            "answers": gettext("Similar images"),
            "no_picture": gettext("No picture"),
            "footer": gettext("Not a medical device. Results are images that look similar, not a diagnosis."),
        }


def compose_teaching_file(
    state: AppState, case: VisibleCase, labels: Sequence[str], ranks: Sequence[int] | None
) -> TeachingFile:
    """Return the teaching file of a case, without ids, UIDs, patient keys, names of files and times.

    Parameters
    ----------
    state : AppState
    case : VisibleCase
    labels : sequence of str
        Keys of the labels to show; no others appear.
    ranks : sequence of int, optional
        Results to show; by default the first 12.
    """
    collection = state.searcher(case.row.collection).collection
    answers = chosen_answers(case, ranks)
    pictures = [
        TeachingPicture(
            picture_of_record(state, collection, case.records[answer.image_id], ANSWER_SIDE),
            _lines(case, answer, labels),
        )
        for answer in answers
    ]
    return TeachingFile(
        title=case.row.title,
        paragraphs=split_paragraphs(case.row.note),
        facts=_facts(case),
        query=_query(state, case, labels),
        answers=tuple(pictures),
    )


def chosen_answers(case: VisibleCase, ranks: Sequence[int] | None) -> list[CaseAnswer]:
    """Return the results with these ranks, or the first of them for None."""
    answers = case.content.answers
    return (
        answers[:DEFAULT_ANSWERS] if ranks is None else [answer for answer in answers if answer.rank in ranks]
    )


def split_paragraphs(note: str) -> tuple[str, ...]:
    """Return the paragraphs of a note, which empty lines separate."""
    lines = [line.rstrip() for line in note.splitlines()]
    paragraphs = "\n".join(lines).split("\n\n")
    return tuple(text.strip("\n") for text in paragraphs if text.strip())


def _query(state: AppState, case: VisibleCase, labels: Sequence[str]) -> TeachingPicture | None:
    search, record = case.content.search, case.query_record
    if search.text is not None:
        return None
    if case.row.stored:
        stored = saved_cases.read_picture(state_database(), case.row.case_id)
        return TeachingPicture(to_jpeg(stored, QUERY_SIDE, search.region) if stored else None, ())
    if record is None:
        return TeachingPicture(None, ())
    collection = state.searcher(case.row.collection).collection
    picture = picture_of_record(state, collection, record, QUERY_SIDE, search.region)
    return TeachingPicture(picture, label_lines(record.labels, labels))


def label_lines(values: dict[str, str], keys: Sequence[str]) -> tuple[str, ...]:
    """Return a line for each label of the chosen keys, not longer than a cell of a page can hold."""
    lines = [f"{key}: {values[key]}" for key in keys if key in values]
    return tuple(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…" for line in lines)


def _lines(case: VisibleCase, answer: CaseAnswer, labels: Sequence[str]) -> tuple[str, ...]:
    figures = gettext(
        "%(rank)s · score %(score)s · distance %(distance)s",
        rank=answer.rank,
        score=format(answer.score, ".3f"),
        distance=format(answer.distance, ".3f"),
    )
    verdicts = {1: gettext("judged relevant"), -1: gettext("judged not relevant")}
    judged = verdicts.get(judgement_of(case, answer.image_id))
    record = case.records[answer.image_id]
    return (figures, *([judged] if judged else []), *label_lines(record.labels, labels))


def judgement_of(case: VisibleCase, image_id: str) -> int:
    """Return 1 or -1 for an image that was judged relevant or not, else 0."""
    relevance = next((mark.relevance for mark in case.content.marks if mark.image_id == image_id), 0.0)
    return (relevance > 0) - (relevance < 0)


def _facts(case: VisibleCase) -> tuple[tuple[str, str], ...]:
    search, method = case.content.search, case.content.method
    titles = {Feedback.name: Feedback.title} | {choice.name: choice.title for choice in rerank.RERANKERS}
    facts = [(gettext("Re-ranking"), titles.get(method, method))] if method else []
    if search.text is not None:
        facts.append((gettext("Words"), search.text))
    if search.region is not None:
        facts.append((gettext("Query"), gettext("Part of an image")))
    if case.content.rounds:
        facts.append((gettext("Rounds of judgements"), str(len(case.content.rounds))))
    return tuple(facts)


def render_html(content: TeachingFile) -> str:
    """Return the HTML document."""
    return render_template("case_file.html", content=content, words=content.headings, encode=_data_address)


def _data_address(data: bytes) -> str:
    return f"data:image/jpeg;base64,{b64encode(data).decode()}"
