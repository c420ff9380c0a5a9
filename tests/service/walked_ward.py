"""The wards with an audit, a quarantined image, and labels and ids in answers to other services."""

import json
import shutil

import pytest

from cbir import settings
from cbir.search import example_values as example
from cbir.store import Collection, Record
from cbir.store.snapshot.derived_files import write_audit_file
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.features.audit.messages import Audit
from tests.service import wards
from tests.service.wards import HIDDEN, Ward

QUARANTINED = Record(
    "5ec4e7" * 5 + "00",
    f"/images/quarantined-{HIDDEN}.png",
    "stamp",
    "png",
    9,
    9,
    labels={"intake": "text"},
    patient_key="5ec4e8" * 5 + "00",
)


def make_walked(temporary: pytest.TempPathFactory) -> Ward:
    """Return a service over copies of the wards."""
    made, root = wards.make(temporary), temporary.mktemp("walked")
    one, two = (shutil.copytree(folder, root / folder.name) for folder in (made.folder, made.other))
    with Collection(one) as collection, collection.writer() as writer:
        hidden = made.hidden[0].image_id
        writer.held_pictures = {QUARANTINED.content_hash: b"jpeg"}
        writer.add([(QUARANTINED, collection.raw_vectors(collection.numbers_of([hidden]))[0])])
    write_audit_file(one, _audit_of(made, hidden).model_dump_json())
    active = settings.load(
        require_tokens=True,
        state_folder=root / "state",
        federation_labels=("site", "marker"),
        federation_ids=True,
        federation_minimum=1,
    )
    tokens = TokenStore(root / "state")
    return made._replace(folder=one, other=two, app=create_app([one, two], active), tokens=tokens)


def _audit_of(ward: Ward, image_id: str) -> Audit:
    """Return an audit whose findings are about one image."""
    operation = ward.client(Scope.admin).get("/openapi.json").json["paths"]["/v1/audit"]["get"]
    answer = operation["responses"]["200"]["content"]["application/json"]["example"]
    return Audit.model_validate_json(json.dumps(answer["audit"]).replace(example.IMAGE_ID, image_id))


def site_question(ward: Ward, image: Record) -> dict[str, object]:
    """Return the body of a search of another service, by the vector of an image."""
    profile = ward.client(Scope.federate).get("/v1/federation/profile").json
    with Collection(ward.folder) as collection:
        vector = collection.raw_vectors(collection.numbers_of([image.image_id]))[0].tolist()
    agreed = {name: profile[name] for name in ("profile_hash", "transform")}
    return {"vector": vector, "k": 100, **agreed}
