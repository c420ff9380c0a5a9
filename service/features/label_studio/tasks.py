"""Pairs of a study as tasks of Label Studio: a folder with tasks, labelling interface and pictures."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from cbir.images.scaling import encode_view
from service.features.annotate.study_files import AskedPair, write_study_file
from service.features.annotate.study_plan import StudyPlan
from service.features.fiftyone.shown_picture import ShownPictures

TASKS, INTERFACE, PICTURES = "tasks.json", "labeling-interface.xml", "images"
SIDE = 1280  # pixels of the longer side of a picture
MORE_SEVERE, OTHER = "more-severe", "other"  # names of the controls
ALIKE, SKIP = "alike", "cannot say"
LOCAL_FILES = "/data/local-files/?d="  # address of Label Studio's own file server


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


def pair_tasks(
    pairs: Iterable[AskedPair], plan: StudyPlan, round_of: Callable[[str, str], int], address: str
) -> list[dict[str, Any]]:
    """Return the tasks of pairs, in the form that Label Studio imports.

    Parameters
    ----------
    pairs : iterable of AskedPair
    plan : StudyPlan
        Of the study.
    round_of : callable
        Returns the number of the round of two images.
    address : str
        Beginning of the addresses of pictures, which end with the id of the image and `.png`.
    """
    return [
        {
            "data": {
                "first": f"{address}{pair.first}.png",
                "second": f"{address}{pair.second}.png",
                "first_id": pair.first,
                "second_id": pair.second,
                "study": plan.study,
                "round": round_of(pair.first, pair.second),
            }
        }
        for pair in pairs
    ]


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
    pairs, plan, round_of
        As of `pair_tasks`.
    address : str or None
        As of `pair_tasks`; None for the file server of Label Studio, whose root is the folder above.
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
    default = f"{LOCAL_FILES}{folder.absolute().name}/{PICTURES}/"
    tasks = pair_tasks(shown_pairs, plan, round_of, default if address is None else address)
    write_study_file(folder / INTERFACE, labelling_interface(plan.question).encode())
    write_study_file(folder / TASKS, json.dumps(tasks, indent=1).encode())
    return WrittenTasks(len(tasks), len(written), len(pairs) - len(shown_pairs))
