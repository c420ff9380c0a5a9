"""Exported cohorts, read as the other systems read them."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pydicom
import pytest
from jsonschema_rs import validator_for
from pydantic import BaseModel, ConfigDict

from cbir.search.cohorts.export_formats import EXPORTS, Images
from cbir.store import Collection
from tests.cbir.search.cohorts.drawn_collection import draw


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    with Collection(draw(tmp_path_factory.mktemp("exports") / "collection")) as collection:
        records = [record for _, record in collection.iterate()][:4]
    return [(record, number != 2) for number, record in enumerate(records)]


def exported(name: str, images: Images) -> Any:
    return json.loads(EXPORTS[name].write("Knees é", images))


def test_csv_opens_in_a_spreadsheet_without_formulas(images: Images) -> None:
    rows = list(csv.DictReader(io.StringIO(EXPORTS["csv"].write("Knees", images))))
    assert [row["relevant"] for row in rows] == ["yes", "yes", "no", "yes"]
    assert rows[0]["label:=key"] == "'=1+1"
    assert "/images" not in str(rows)


def test_dicom_json_model(images: Images) -> None:
    """PS3.18, annex F: pydicom reads each object as a data set."""
    datasets = [pydicom.Dataset.from_json(each) for each in exported("dicom", images)]
    assert [each.SOPInstanceUID for each in datasets] == ["1.2.1.1", "1.2.3.1"]
    assert {each.SOPClassUID.name for each in datasets} == {"Computed Radiography Image Storage"}
    assert [each.SeriesInstanceUID for each in datasets] == ["1.2.1", "1.2.3"]


class DataModel(BaseModel):
    """As in monailabel/datastore/local.py of MONAI Label 0.8, with unknown fields refused."""

    model_config = ConfigDict(extra="forbid")
    ext: str = ""
    info: dict[str, Any] = {}


class ImageLabelModel(BaseModel):
    model_config = ConfigDict(extra="forbid")
    image: DataModel
    labels: dict[str, DataModel] = {}


class LocalDatastoreModel(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    description: str
    images_dir: str = ""
    labels_dir: str = "labels"
    objects: dict[str, ImageLabelModel] = {}
    base_path: str = ""


def test_datastore_of_monai_label(images: Images) -> None:
    datastore = LocalDatastoreModel.model_validate(exported("monai", images))
    assert datastore.name == "Knees é"
    assert list(datastore.objects) == [record.image_id for record, relevant in images if relevant]
    assert {each.image.ext for each in datastore.objects.values()} == {".png"}


NUMBER, TEXT = {"type": "number"}, {"type": "string"}
COCO = {  # cocodataset.org/#format-data, object detection
    "type": "object",
    "required": ["info", "images", "annotations", "categories"],
    "properties": {
        "images": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "width", "height", "file_name"],
                "properties": {
                    "id": {"type": "integer"}, "width": {"type": "integer"}, "height": {"type": "integer"},
                    "file_name": TEXT,
                },
            },
        },
        "annotations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "image_id", "category_id", "segmentation", "area", "bbox", "iscrowd"],
                "properties": {
                    "segmentation": {"type": "array", "items": {"type": "array", "items": NUMBER, "minItems": 6}},
                    "bbox": {"type": "array", "items": NUMBER, "minItems": 4, "maxItems": 4},
                    "iscrowd": {"enum": [0, 1]},
                },
            },
        },
        "categories": {"type": "array", "items": {"type": "object", "required": ["id", "name", "supercategory"]}},
    },
}  # fmt: skip


def test_coco(images: Images) -> None:
    data = exported("coco", images)
    validator_for(COCO).validate(data)
    known = {image["id"] for image in data["images"]}
    assert [each["image_id"] for each in data["annotations"]] == [1, 2, 4]
    assert {each["image_id"] for each in data["annotations"]} <= known
    assert {each["category_id"] for each in data["annotations"]} == {
        each["id"] for each in data["categories"]
    }
    assert data["annotations"][0]["bbox"] == [0, 0, 40, 30]


TASKS = {  # labelstud.io/guide/predictions and /guide/tasks, "Basic Label Studio JSON format"
    "type": "array",
    "items": {
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {"type": "object"},
            "annotations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["result"],
                    "properties": {
                        "result": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["from_name", "to_name", "type", "value"],
                                "properties": {
                                    "type": {"const": "choices"},
                                    "value": {
                                        "type": "object",
                                        "required": ["choices"],
                                        "properties": {
                                            "choices": {"type": "array", "items": TEXT, "minItems": 1}
                                        },
                                    },
                                },
                            },
                        }
                    },
                },
            },
        },
    },
}


def test_tasks_of_label_studio(images: Images) -> None:
    tasks = exported("label-studio", images)
    validator_for(TASKS).validate(tasks)
    choices = [task["annotations"][0]["result"][0]["value"]["choices"] for task in tasks]
    assert choices == [["relevant"], ["relevant"], ["not relevant"], ["relevant"]]
    assert tasks[0]["data"]["image"] == f"/v1/images/{images[0][0].image_id}/picture"


@pytest.mark.parametrize("name", list(EXPORTS))
def test_an_empty_cohort(name: str, tmp_path: Path) -> None:
    text = EXPORTS[name].write("None", [])
    assert text.strip()
    assert "/" not in EXPORTS[name].file_name
