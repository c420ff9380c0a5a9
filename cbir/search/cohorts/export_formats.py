"""Files that a cohort is exported as: csv, DICOM JSON, and lists of MONAI Label, COCO and Label Studio."""

import csv
import json
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, NamedTuple

from cbir.search import image_links
from cbir.store import Record
from cbir.system.files import harmless_cell

Images = Sequence[tuple[Record, bool]]  # with their relevance, in the order of judging
RELEVANT, IRRELEVANT = "relevant", "not relevant"
CATEGORY = "cohort"  # of an image in the names of other systems
COLUMNS = ("image_id", "relevant", "patient", "study", "series", "instance", "frame", "width", "height")


class ExportFile(NamedTuple):
    """A format. write: returns the text for a title and images."""

    file_name: str
    media_type: str
    write: Callable[[str, Images], str]


def write_csv(title: str, images: Images) -> str:
    """Return a csv table of the judged images, with a column for each label.

    `title`: of the cohort, not used. `images`: with their relevance.
    """
    keys = sorted({key for record, _ in images for key in record.labels})
    text = StringIO()
    rows = csv.writer(text)
    rows.writerow([*COLUMNS, *(harmless_cell(f"label:{key}") for key in keys)])
    for record, relevant in images:
        values = (
            record.image_id, "yes" if relevant else "no", record.patient_key or "", record.study, record.series,
            record.instance, record.frame or "", record.width, record.height,
        )  # fmt: skip
        rows.writerow(
            [harmless_cell(value) for value in (*values, *(record.labels.get(key, "") for key in keys))]
        )
    return text.getvalue()


def write_dicom(title: str, images: Images) -> str:
    """Return the instances that belong to a cohort in the DICOM JSON model (PS3.18, annex F), as QIDO-RS lists them.

    Each is an object with SOPClassUID, where it is known, and the UIDs of instance, study and series. Other images
    have no UIDs, and are left out. `title`: of the cohort, not used. `images`: with their relevance.
    """
    instances: dict[str, dict[str, Any]] = {}
    for record, relevant in images:
        if relevant and record.instance and record.format != "nifti":  # whose UIDs are our own
            values = {
                "00080016": record.sop_class,
                "00080018": record.instance,
                "0020000D": record.study,
                "0020000E": record.series,
            }
            instances[record.instance] = {
                tag: {"vr": "UI", "Value": [value]} for tag, value in values.items() if value
            }
    return _as_json(list(instances.values()))


def write_monai(title: str, images: Images) -> str:
    """Return the images that belong to a cohort as `datastore_v2.json` of MONAI Label, without labels.

    Its local datastore reads images named by id and extension beside it (class LocalDatastoreModel of
    monailabel/datastore/local.py, MONAI Label 0.8). Pictures are PNG files. `title`: of the cohort. `images`: with
    their relevance.
    """
    objects = {
        record.image_id: {"image": {"ext": ".png", "info": _information(record)}, "labels": {}}
        for record, relevant in images
        if relevant
    }
    description = "Cohort of cbir"
    return _as_json(
        {
            "name": title,
            "description": description,
            "images_dir": ".",
            "labels_dir": "labels",
            "objects": objects,
        }
    )


def write_coco(title: str, images: Images) -> str:
    """Return the judged images as a data set of COCO, in which those of the cohort have an annotation of their area.

    Format: cocodataset.org, "Data format", object detection. `title`: of the cohort. `images`: with their relevance.
    """
    entries, annotations = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, (record, relevant) in enumerate(images, start=1):
        width, height = record.width, record.height
        entries.append(
            {"id": number, "file_name": f"{record.image_id}.png", "width": width, "height": height}
        )
        if relevant:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": 1,
                    "bbox": [0, 0, width, height],
                    "area": width * height,
                    "segmentation": [[0, 0, width, 0, width, height, 0, height]],
                    "iscrowd": 0,
                }
            )
    categories = [{"id": 1, "name": CATEGORY, "supercategory": ""}]
    information = {"description": title}
    return _as_json(
        {"info": information, "images": entries, "annotations": annotations, "categories": categories}
    )


def write_label_studio(title: str, images: Images) -> str:
    """Return the judged images as tasks of Label Studio, with their judgements as annotations.

    Format: labelstud.io, "Import pre-annotated data", for a labelling interface with an Image tag named `image` and
    Choices named `cohort`. Addresses are relative to the service. `title`: of the cohort. `images`: with relevance.
    """
    tasks: list[dict[str, Any]] = [
        {
            "data": {
                "image": f"{image_links(record.image_id).image}/picture",
                "title": title,
                **_information(record),
            },
            "annotations": [
                {
                    "result": [
                        {
                            "from_name": "cohort",
                            "to_name": "image",
                            "type": "choices",
                            "value": {"choices": [RELEVANT if relevant else IRRELEVANT]},
                        }
                    ]
                }
            ],
        }
        for record, relevant in images
    ]
    return _as_json(tasks)


def _information(record: Record) -> dict[str, Any]:
    return {
        "image_id": record.image_id,
        "width": record.width,
        "height": record.height,
        "labels": record.labels,
    }


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


EXPORTS = {
    "csv": ExportFile("cohort.csv", "text/csv", write_csv),
    "dicom": ExportFile("cohort-dicom.json", "application/json", write_dicom),
    "monai": ExportFile("datastore_v2.json", "application/json", write_monai),
    "coco": ExportFile("cohort-coco.json", "application/json", write_coco),
    "label-studio": ExportFile("cohort-tasks.json", "application/json", write_label_studio),
}
