"""Use the client that openapi-python-client has generated as the package `contract`.

python search_program.py ADDRESS PICTURE DICOM ID prints what the service answered as JSON. Parameters are those of a
user: all others have the values that the generator gives them.
"""

import importlib
import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

address, picture, dicom, image_id = sys.argv[1:]
data = Path(picture).read_bytes()
types, models = importlib.import_module("contract.types"), importlib.import_module("contract.models")
client = importlib.import_module("contract").Client(base_url=address, timeout=300)


def call(operation: str, *values: str, **arguments: Any) -> Any:
    """Call a generated operation; fail unless it succeeds."""
    answer = importlib.import_module(f"contract.api.{operation}").sync_detailed(
        *values, client=client, **arguments
    )
    assert answer.status_code in (200, 201, 204), answer.content
    return answer.parsed


def upload(name: str) -> Any:
    """Return a file as the generated client takes it."""
    return types.File(payload=BytesIO(data), file_name=name, mime_type="image/png")


def found(operation: str, **arguments: Any) -> list[str]:
    """Return the ids of a search's results."""
    return [hit.image_id for hit in call(operation, collection, **arguments).results]


collection = call("collections.collections").default


form = models.SearchFilesBody(
    image=[upload("a.png")], k=3, rerank="none", region=[0, 0, 32, 32], parameters=[], where=[]
)
by_id = models.SearchById(image_id=image_id, k=3)
results = {
    "by id": found("search.search", body=by_id),
    "by id, with the parameters in the address": found(
        "search.search", body=models.SearchById(image_id=image_id), k=3
    ),
    "by file": found("search.search", body=models.SearchFilesBody(image=[upload("M\u00fcller.png")], k=3)),
    "by two files": found(
        "search.search", body=models.SearchFilesBody(image=[upload("a"), upload("b")], k=3)
    ),
    "by a region": found("search.search", body=form),
    "by the body": found("search.search", body=upload("a.png"), k=3),
}
call("render.render", body=models.RenderFilesBody(image=upload("a.png")))
call("explain.explain", collection, body=models.ExplainById(image_id=image_id, answers=results["by id"][1:]))
explained = models.ExplainFilesBody(image=upload("a.png"), answers=results["by id"][1:])
call("explain.explain", collection, body=explained)
batch = models.SearchBatchFilesBody(image=[upload("a.png"), upload("b.png")], k=3)
nameless = types.File(payload=BytesIO(data))
searched = models.SearchFilesBody(image=[nameless], k=3)
results["by a file without a name"] = found("search.search", body=searched)
vector = call("images.vector", collection, image_id, raw=True).items[0].values
by_vector = models.SearchByVector(vector=vector, k=4)
results["by vector"] = found("search.search", body=by_vector)
pair = models.BatchSearch(queries=[by_id, by_vector])
results["a batch of two kinds"] = [
    [hit.image_id for hit in item.answer.results]
    for item in call("search.search_batch", collection, body=pair).items
]
results["two searches"] = len(call("search.search_batch", collection, body=batch).items)
added = call("images.add", collection, body=models.AddFilesBody(image=[upload("a.png")]))
results["added"] = [item.outcome for item in added.images]
instance = types.File(payload=BytesIO(Path(dicom).read_bytes()))
call("dicomweb.store_instances", collection, body=instance)
labels = models.LabelChange.from_dict({"labels": {"site": "north", "missing": None}})
call("images.set_labels", collection, image_id, body=labels)
several = models.SetLabelChange.from_dict({"ids": [image_id], "labels": {"site": None}})
call("images.label_images", collection, body=several)
description = json.dumps({"title": "Knee", "search": {"k": 3}})
case = call("cases.save_case", body=models.SaveCaseFilesBody(image=upload("a.png"), case=description))
call("cases.change_case", case.id, body=models.CaseChange(title="Left knee"))
call("cases.export_case", case.id, label_keys=["label"], ranks=[1])
call("cases.delete_case", case.id)
cohort = call("cohorts.begin_cohort", body=models.NewCohort("Knees", [image_id], where=["label?"]))
judged = models.CohortJudgement(results["by id"][1], relevant=True)
call("cohorts.judge_cohort", cohort.id, body=models.CohortJudgements([judged]))
call("cohorts.delete_cohort", cohort.id)
results["images"] = len(call("images.images", collection, limit=5).items)
print(json.dumps(results))
