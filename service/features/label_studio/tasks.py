"""Pairs of a study as tasks of Label Studio, and the answers in its JSON export as judgements."""

import hashlib
import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, NamedTuple
from xml.etree import ElementTree

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from cbir.errors import InvalidInput
from cbir.images.scaling import encode_view
from service.features.annotate.active.judgement_journal import (
    MAX_SECONDS,
    ImageId,
    PairAnswer,
    PairJudgement,
    utc_now,
)
from service.features.annotate.study_files import AskedPair, StudyRound, write_study_file
from service.features.annotate.study_plan import StudyPlan
from service.features.fiftyone.fiftyone_folder import ShownPictures

TASKS, INTERFACE, PICTURES = "tasks.json", "labeling-interface.xml", "images"
SIDE = 1280  # pixels of the longer side of a picture
MORE_SEVERE, OTHER = "more-severe", "other"  # names of the controls
ALIKE, SKIP = "alike", "cannot say"
LOCAL_FILES = "/data/local-files/?d="  # address of Label Studio's own file server
SIDES = {"left": PairAnswer.first, "right": PairAnswer.second}
CHOICES = {ALIKE: PairAnswer.alike, SKIP: PairAnswer.skip}
FORMAT = 'it is no JSON export of Label Studio with the tasks of a study: choose "JSON", not "JSON-MIN"'


class WrittenTasks(NamedTuple):
    """Numbers of tasks and pictures, and of pairs left out: with text in the pixels, or without a file."""

    tasks: int
    pictures: int
    left_out: int


def labelling_interface(question: str) -> str:
    """Return the labelling interface that asks which of two images is more severe (labelstud.io/tags/pairwise)."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Header", value=question)
    ElementTree.SubElement(view, "Pairwise", name=MORE_SEVERE, toName="first,second")
    row = ElementTree.SubElement(view, "View", style="display: flex; gap: 1em;")
    for name in ("first", "second"):
        half = ElementTree.SubElement(row, "View", style="flex: 1;")
        ElementTree.SubElement(half, "Image", name=name, value=f"${name}", zoomControl="true")
    choices = ElementTree.SubElement(view, "Choices", name=OTHER, toName="first", choice="single")
    for value in (ALIKE, SKIP):
        ElementTree.SubElement(choices, "Choice", value=value)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def write_pairs(
    folder: Path,
    pairs: Sequence[AskedPair],
    plan: StudyPlan,
    round_of: Callable[[str, str], int],
    address: str | None,
    shown: ShownPictures,
    progress: Callable[[int, int], None],
) -> WrittenTasks:
    """Write tasks.json, labeling-interface.xml and the pictures of the images, for their owner alone, to a folder.

    Pairs are left out if an image is none of `shown`: it has text in its pixels, or no file.

    Parameters
    ----------
    folder : Path
        Folder that exists.
    pairs : iterable of AskedPair
    plan : StudyPlan
        Of the study.
    round_of : callable
        Returns the number of the round of two images.
    address : str or None
        Beginning of the addresses of pictures, which end with the id of the image and `.png`; None for the file
        server of Label Studio, whose root is the folder above.
    shown : ShownPictures
        Of the collection.
    progress : callable
        Called with the pictures done and in all.
    """
    ids = list(dict.fromkeys(image_id for pair in pairs for image_id in pair.pair))
    records, written = shown.collection.records_by_id(ids), set[str]()
    for done, image_id in enumerate(ids, start=1):
        record = records.get(image_id)
        image = None if record is None else shown.read(record)
        if image is not None:
            write_study_file(folder / PICTURES / f"{image_id}.png", encode_view(image, SIDE))
            written.add(image_id)
        progress(done, len(ids))
    shown_pairs = [pair for pair in pairs if written.issuperset(pair.pair)]
    if address is None:
        address = f"{LOCAL_FILES}{folder.absolute().name}/{PICTURES}/"
    data = [
        {
            "first": f"{address}{pair.first}.png",
            "second": f"{address}{pair.second}.png",
            "first_id": pair.first,
            "second_id": pair.second,
            "study": plan.study,
            "round": round_of(pair.first, pair.second),
        }
        for pair in shown_pairs
    ]
    write_study_file(folder / INTERFACE, labelling_interface(plan.question).encode())
    write_study_file(folder / TASKS, json.dumps([{"data": each} for each in data], indent=1).encode())
    return WrittenTasks(len(data), len(written), len(pairs) - len(shown_pairs))


class _Data(BaseModel):
    first_id: ImageId
    second_id: ImageId
    study: str


class _Person(BaseModel):
    id: int


class _Value(BaseModel):
    selected: str = ""
    choices: list[str] = []


class _Result(BaseModel):
    from_name: str = ""
    value: _Value = _Value()


class _Annotation(BaseModel):
    id: int | str
    completed_by: _Person | int | None = None  # another text may be an e-mail address
    was_cancelled: bool | None = False
    result: list[_Result]
    lead_time: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    updated_at: AwareDatetime | None = None


class _Task(BaseModel):
    data: _Data
    annotations: list[_Annotation]


ANSWERED: TypeAdapter[list[_Task]] = TypeAdapter(list[_Task])


def read_label_studio_export(path: Path, study: str, rounds: Sequence[StudyRound]) -> list[PairJudgement]:
    """Return the judgements in a JSON export of Label Studio.

    A person is named by the number that Label Studio has for them, as `label-studio-7`. A skipped task, and
    "cannot say", is the answer skip. The same export gives the same names of judgements. The latest is the last: it
    counts if a person has answered twice.

    Parameters
    ----------
    path : Path
        File of the export.
    study : str
        Id of the study that the tasks must be of.
    rounds : sequence of StudyRound
        Rounds of the study.

    Raises
    ------
    InvalidInput
        If the file is no such export, of another study, or has a pair of no round or an annotation without answer.
    """
    try:
        tasks = ANSWERED.validate_python(json.loads(path.read_bytes()))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except (ValidationError, ValueError, RecursionError):
        raise InvalidInput(f"{path}: {FORMAT}") from None
    round_of = {pair.pair: round_.number for round_ in rounds for pair in round_.pairs}
    judgements = list[PairJudgement]()
    for number, task in enumerate(tasks, start=1):

        def refuse(what: str, number: int = number) -> InvalidInput:
            return InvalidInput(f"{path}: task {number} {what}")

        if task.data.study != study:
            raise refuse("belongs to another study; name the folder of that one")
        first, second = sorted((task.data.first_id, task.data.second_id))
        if (first, second) not in round_of:
            raise refuse("has a pair that the study did not ask for")
        for annotation in task.annotations:
            judgements.append(_judgement(task.data, annotation, round_of[first, second], refuse))
    return sorted(judgements, key=attrgetter("at"))


def _judgement(
    data: _Data, annotation: _Annotation, round_: int, refuse: Callable[[str], InvalidInput]
) -> PairJudgement:
    person = annotation.completed_by
    number = person.id if isinstance(person, _Person) else person
    who = "label-studio" if number is None else f"label-studio-{number}"[:100]
    answer, at = _answer(annotation, refuse), annotation.updated_at or utc_now()
    content = [data.study, data.first_id, data.second_id, who, annotation.id, answer, annotation.updated_at]
    digest = hashlib.blake2b("\n".join(map(str, content)).encode(), digest_size=16).hexdigest()
    return PairJudgement(
        name=f"label-studio-{digest}",
        at=at,
        who=who,
        seconds=min(annotation.lead_time or 0.0, MAX_SECONDS),
        first=data.first_id,
        second=data.second_id,
        answer=answer,
        round=round_,
    )


def _answer(annotation: _Annotation, refuse: Callable[[str], InvalidInput]) -> PairAnswer:
    """Return the answer of an annotation; a choice, which is made last, counts more than a side."""
    if annotation.was_cancelled:
        return PairAnswer.skip
    values = {result.from_name: result.value for result in annotation.result}
    choices, side = values.get(OTHER, _Value()).choices, values.get(MORE_SEVERE, _Value()).selected
    answer = CHOICES.get("".join(choices)) if choices else SIDES.get(side)
    if answer is None:
        raise refuse("has an annotation without an answer; delete it, or skip the task, and export again")
    return answer
